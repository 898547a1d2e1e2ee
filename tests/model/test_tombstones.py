"""What a table keeps about its effects is short, and says no more than what was settled."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from twice.model.scopes import Scope
from twice.model.tombstones import Tombstones
from twice.model.windows import Window

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def day(number: int, days: int = 1, **dimensions: str) -> Scope:
    start = START + timedelta(days=number - 1)
    return Scope.of(Window(start, start + timedelta(days=days)), dimensions)


def test_a_year_of_days_is_one_span_and_a_gap_is_a_gap():
    known = Tombstones().adding(("shop.post", day(number)) for number in (*range(1, 100), *range(101, 366)))
    assert len(known.text) < 200
    assert [known.cover("shop.post", day(number)) for number in (1, 99, 100, 101, 365, 366)] == [
        True, True, False, True, True, False,
    ]  # fmt: skip
    assert not known.cover("shop.post", day(99, 2))
    assert not known.cover("shop.charge", day(1))


def test_tenants_and_whole_tables_are_told_apart():
    known = Tombstones().adding([("a", day(1, tenant='o"x')), ("b", Scope(None))])
    known = Tombstones.read(known.text)
    assert known.cover("a", day(1, tenant='o"x'))
    assert not known.cover("a", day(1))
    assert known.cover("b", Scope(None))
    assert not known.cover("a", Scope(None))


def test_what_was_known_stays_and_only_the_newest_spans_are_kept():
    old = Tombstones().adding([("a", day(1))])
    more = Tombstones.read(old.text).adding(("a", day(number)) for number in range(3, 1200, 2))
    assert more.cover("a", day(1199))
    assert not more.cover("a", day(1))
    assert len(more.text) < 40_000
    tenants = Tombstones().adding(("a", day(number, tenant=str(number))) for number in range(1, 3000))
    assert tenants.cover("a", day(2999, tenant="2999"))
    assert not tenants.cover("a", day(1, tenant="1"))
    assert old.adding([("a", day(5))]).cover("a", day(1))


@pytest.mark.parametrize("text", [None, "", "x", "[]", "3", '{"a": 1}', '{"a": {"{}": [1]}}', '{"a": {"{}": [["x"]]}}'])
def test_what_is_not_ours_says_nothing(text):
    assert Tombstones.read(text).text == ""
