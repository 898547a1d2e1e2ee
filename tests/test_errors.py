"""An error says what happened, what is unchanged and what to do."""

from __future__ import annotations

import pytest

from twice.errors import Conflict, GateFailed, Interrupted, LeaseLost, ScopeHeld, TransientError, TwiceError, UsageError


def test_an_error_reads_as_three_lines():
    error = GateFailed("row count is 0", unchanged="the last good version stays readable", next_step="twice show 7")
    assert str(error).splitlines() == [
        "row count is 0",
        "  unchanged: the last good version stays readable",
        "  next: twice show 7",
    ]
    assert error.message == "row count is 0"


def test_what_is_not_known_is_not_printed():
    assert str(TwiceError("it broke")) == "it broke"
    assert str(TwiceError("it broke", next_step="x")) == "it broke\n  next: x"
    assert str(TwiceError("it broke", unchanged="all")) == "it broke\n  unchanged: all"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (GateFailed, 3),
        (TwiceError, 3),
        (ScopeHeld, 4),
        (LeaseLost, 4),
        (TransientError, 75),
        (Conflict, 75),
        (Interrupted, 130),
    ],
)
def test_exit_codes(kind, code):
    assert kind("x").exit_code == code


def test_an_error_needs_words():
    with pytest.raises(TypeError):
        TwiceError()
    with pytest.raises(TypeError):
        TwiceError("message", "unchanged must be named")
