"""S16: deterministic surrogates, the plain Python side."""

from __future__ import annotations

import hashlib
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.errors import DefinitionError
from twice.model.keys import key_hash

scalars = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.booleans(),
    st.integers(-(10**37), 10**37),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20),
    st.dates(),
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(timezone.utc)),
    st.binary(),
)


def test_a_key_is_the_documented_hash() -> None:
    encoded = b"s2:ab~n4:-1.5b4:trued10:2026-04-25t26:2026-04-25 01:02:03.000004x4:AP8v"
    instant = datetime(2026, 4, 25, 1, 2, 3, 4, tzinfo=timezone.utc)
    values = ("ab", None, Decimal("-1.50"), True, date(2026, 4, 25), instant, b"\x00\xff/")
    assert key_hash(*values) == hashlib.sha256(encoded).hexdigest()[:32]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("ab", "c"), ("a", "bc")),
        ((None,), ("",)),
        ((None, ""), ("", None)),
        (("a", None), ("a",)),
        ((1,), ("1",)),
        ((True,), (1,)),
        ((False,), (0,)),
        ((date(2026, 4, 25),), ("2026-04-25",)),
        ((b"a",), ("a",)),
        ((datetime(2026, 4, 25, tzinfo=timezone.utc),), (date(2026, 4, 25),)),
        (("~",), (None,)),
        (("s1:a",), ("a",)),
    ],
)
def test_values_that_differ_have_keys_that_differ(left: tuple[object, ...], right: tuple[object, ...]) -> None:
    assert key_hash(*left) != key_hash(*right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, Decimal("1.00")),
        (100, Decimal("1E+2")),
        (0, Decimal("-0.000")),
        (Decimal("1E-10"), Decimal("0.0000000001000")),
        (
            datetime(2026, 4, 25, 22, tzinfo=timezone.utc),
            datetime(2026, 4, 26, 0, tzinfo=timezone(timedelta(hours=2))),
        ),
        (b"a", bytearray(b"a")),
    ],
)
def test_equal_values_have_equal_keys(left: object, right: object) -> None:
    assert key_hash(left) == key_hash(right)


def test_a_number_keeps_all_its_digits() -> None:
    wide = Decimal(12345678901234567890123456789012345678)
    assert key_hash(wide) == key_hash(int(wide))
    assert key_hash(wide) != key_hash(wide + 1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((), "at least one value"),
        ((1.5,), "Use a Decimal"),
        ((datetime(2026, 4, 25),), "Give it a time zone"),
        (([1],), "a list"),
        ((Decimal("NaN"),), "not finite"),
        ((10**38,), "more than 38 digits"),
        ((Decimal("1E+999999999"),), "more than 38 digits"),
        (("\ud800",), "surrogate"),
        ((datetime.min.replace(tzinfo=timezone(timedelta(hours=2))),), "outside the years"),
    ],
)
def test_what_has_no_stable_key_is_refused(values: tuple[object, ...], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        key_hash(*values)


@given(st.lists(scalars, min_size=1, max_size=4), st.lists(scalars, min_size=1, max_size=4))
def test_keys_are_equal_exactly_when_the_values_are(left: list[object], right: list[object]) -> None:
    def same(a: object, b: object) -> bool:
        numbers = (int, Decimal)
        kinds_agree = type(a) is type(b) or (
            isinstance(a, numbers) and isinstance(b, numbers) and not {bool} & {type(a), type(b)}
        )
        return kinds_agree and a == b

    equal = len(left) == len(right) and all(map(same, left, right))
    assert (key_hash(*left) == key_hash(*right)) is equal
