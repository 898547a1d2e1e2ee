"""Windows: half-open, event time, UTC inside."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice import Window
from twice.errors import UsageError

UTC = timezone.utc
instants = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))
small = st.integers(0, 6).map(lambda hour: datetime(2026, 4, 25, hour, tzinfo=UTC))


@st.composite
def windows(draw: st.DrawFn, points: st.SearchStrategy[datetime] = instants) -> Window:
    start, end = sorted(draw(st.lists(points, min_size=2, max_size=2, unique=True)))
    return Window(start, end)


@settings(deadline=None)
@given(windows())
def test_json_gives_the_same_window_back(window):
    assert Window.from_json(window.to_json()) == window


@settings(deadline=None)
@given(windows(small), windows(small), small)
def test_overlap_and_cover_agree_with_the_hours_inside(a, b, instant):
    hours = [datetime(2026, 4, 25, hour, tzinfo=UTC) for hour in range(7)]
    mine, theirs = ({hour for hour in hours if window.contains(hour)} for window in (a, b))
    assert a.overlaps(b) == b.overlaps(a) == bool(mine & theirs)
    assert a.covers(b) == (theirs <= mine)
    assert a.contains(instant) == (a.start <= instant < a.end)


@settings(deadline=None)
@given(windows(), windows())
def test_different_windows_read_differently(a, b):
    assert (str(a) == str(b)) == (a == b)


def test_text_is_as_short_as_it_can_be():
    start = datetime(2026, 4, 25, tzinfo=UTC)
    assert str(Window(start, start + timedelta(days=1))) == "2026-04-25/2026-04-26"
    assert str(Window(start, start + timedelta(hours=10))) == "2026-04-25/2026-04-25T10:00Z"
    assert str(Window(start, start + timedelta(milliseconds=1500))) == "2026-04-25/2026-04-25T00:00:01.5Z"
    assert str(Window(datetime(999, 1, 1, tzinfo=UTC), start)) == "0999-01-01/2026-04-25"


def test_local_times_become_utc():
    berlin = ZoneInfo("Europe/Berlin")
    window = Window(datetime(2026, 10, 25, tzinfo=berlin), datetime(2026, 10, 26, tzinfo=berlin))
    assert window.start == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert window.end - window.start == timedelta(hours=25)


@pytest.mark.parametrize("hours", [0, -1])
def test_the_end_must_come_after_the_start(hours):
    start = datetime(2026, 4, 25, tzinfo=UTC)
    with pytest.raises(UsageError, match="must end after it starts: 2026-04-25 to") as caught:
        Window(start, start + timedelta(hours=hours))
    assert "the later date as the end" in caught.value.next_step


def test_a_time_without_zone_is_refused():
    aware = datetime(2026, 4, 25, tzinfo=UTC)
    with pytest.raises(UsageError, match="a window's end needs a time zone: 2026-04-26T00:00:00 has none"):
        Window(aware, datetime(2026, 4, 26))
    with pytest.raises(UsageError, match="a window's start must be a datetime with a time zone"):
        Window(date(2026, 4, 25), aware)
