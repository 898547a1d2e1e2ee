"""The functions of `twice`: what they ask for, and what they refuse before Spark is started."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

import twice
from twice import Day, Pipeline, Window, hours
from twice.api import asked_window


@pytest.fixture
def berlin():
    return Pipeline("shop", grain=Day, time_zone="Europe/Berlin")


def test_a_run_takes_one_unit_of_the_grain_a_window_or_a_range(berlin):
    day = asked_window(berlin, "2026-04-25", None, None)
    assert day.start == datetime(2026, 4, 24, 22, tzinfo=timezone.utc)
    assert hours(24).after(day.start, berlin.zone) == day.end
    assert asked_window(berlin, day, None, None) is day
    two = asked_window(berlin, None, "2026-04-25", "2026-04-27")
    assert (two.start, two.end) == (day.start, datetime(2026, 4, 26, 22, tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((), 'a run needs a window: one unit, such as "2026-04-25", or from_= and to= '),
        (("2026-04-25", "2026-04-25", None), "give either one unit, or from_= and to=, not both"),
        ((None, "2026-04-25", None), "a run needs a window"),
        ((None, None, "2026-04-25"), "a run needs a window"),
        ((date(2026, 4, 25),), 'a unit must be a text such as "2026-04-25" or a Window, got datetime.date'),
        (("yesterday",), "yesterday"),
    ],
)
def test_a_run_without_a_clear_window_is_refused_before_anything_starts(berlin, tmp_path, monkeypatch, asked, message):
    monkeypatch.chdir(tmp_path)
    unit, from_, to = (*asked, None, None, None)[:3]
    with pytest.raises(twice.UsageError) as caught:
        twice.run(berlin, unit, from_=from_, to=to)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_window_and_a_range_are_not_both_taken(berlin):
    window = Window(datetime(2026, 4, 24, 22, tzinfo=timezone.utc), datetime(2026, 4, 25, 22, tzinfo=timezone.utc))
    with pytest.raises(twice.UsageError, match="not both"):
        asked_window(berlin, window, "2026-04-25", "2026-04-26")
