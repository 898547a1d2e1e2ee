"""An error says what happened, what stays safe and what to do."""

from __future__ import annotations

import pytest

from twice.errors import Conflict, GateFailed, Interrupted, LeaseLost, ScopeHeld, TransientError, TwiceError, UsageError


def test_an_error_reads_as_three_lines():
    error = GateFailed("row count is 0", safe="the last good version stays readable", to_go_on="twice show 7")
    assert str(error).splitlines() == [
        "row count is 0",
        "  safe: the last good version stays readable",
        "  to go on: twice show 7",
    ]
    assert error.message == "row count is 0"


def test_what_is_not_known_is_not_printed():
    assert str(TwiceError("it broke")) == "it broke"
    assert str(TwiceError("it broke", to_go_on="x")) == "it broke\n  to go on: x"
    assert str(TwiceError("it broke", safe="all")) == "it broke\n  safe: all"


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
        TwiceError("message", "safe must be named")
