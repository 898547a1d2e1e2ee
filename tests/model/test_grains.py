"""S05, S20: time is cut into whole partitions, in any time zone."""

from __future__ import annotations

import contextlib
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twice import Day, Hour, Month, QuarterHour, Week, Window
from twice.errors import DefinitionError, UsageError
from twice.model.grains import Partition, zone_of

UTC = timezone.utc
GRAINS = [QuarterHour, Hour, Day, Week, Month]
NAMES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "America/Sao_Paulo",  # clocks jump from midnight to one
    "Pacific/Apia",  # has no 2011-12-30
    "Africa/Cairo",
    "Atlantic/Azores",  # has midnight twice
    "Australia/Lord_Howe",  # half an hour of summer time
    "America/St_Johns",  # until 2011 clocks went back at 00:01, into the day before
    "Africa/Casablanca",
]
ZONES = [ZoneInfo(name) for name in NAMES]


def transitions(zone: ZoneInfo) -> list[datetime]:
    """Find the instants from 2000 to 2037 at which the zone's clocks change."""
    found, now = [], datetime(2000, 1, 1, tzinfo=UTC)
    while now.year < 2037:
        following = now + timedelta(days=7)
        if now.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            low, high = now, following
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
                same = middle.astimezone(zone).utcoffset() == now.astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append(high)
        now = following
    return found


CHANGES = {zone.key: transitions(zone) for zone in ZONES}
anywhen = st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))
grains = st.sampled_from(GRAINS)


@st.composite
def places(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone and an instant, half of the time close to a change of its clocks."""
    zone = draw(st.sampled_from(ZONES))
    changes = CHANGES[zone.key]
    if changes and draw(st.booleans()):
        off = draw(st.sampled_from([-90_000, -3601, -3600, -1800, -60, -1, 0, 1, 59, 60, 1800, 3599, 3600, 90_000]))
        return zone, draw(st.sampled_from(changes)) + timedelta(seconds=off)
    return zone, draw(anywhen)


@settings(deadline=None)
@given(grains, places())
def test_every_instant_lies_in_exactly_one_partition(grain, place):
    zone, instant = place
    start = grain.floor(instant, zone)
    assert start <= instant < grain.next(start, zone)
    assert grain.floor(start, zone) == start
    assert grain.is_boundary(start, zone)
    assert grain.containing(instant, zone) == Window(start, grain.next(start, zone))
    assert grain.containing(grain.next(start, zone) - timedelta(microseconds=1), zone).start == start
    assert grain.floor(grain.next(start, zone), zone) == grain.next(start, zone)
    assert start.tzinfo is UTC


@settings(deadline=None)
@given(grains, places(), st.integers(1, 60))
def test_partitions_cover_a_window_exactly(grain, place, count):
    zone, instant = place
    start = end = grain.floor(instant, zone)
    for _ in range(count):
        end = grain.next(end, zone)
    parts = list(grain.partitions(Window(start, end), zone))
    assert len(parts) == count
    assert (parts[0].start, parts[-1].end) == (start, end)
    assert all(left.end == right.start for left, right in pairwise(parts))
    assert len({grain.value(part.start, zone) for part in parts}) == count


@settings(deadline=None)
@given(grains, places())
def test_value_label_and_text_lead_back_to_the_partition(grain, place):
    zone, instant = place
    start = grain.floor(instant, zone)
    assert grain.start_of(grain.value(start, zone), zone) == start
    assert grain.parse(grain.label(start, zone), zone) == start
    assert grain.unit(grain.label(start, zone), zone) == grain.containing(instant, zone)
    assert grain.parse(start.isoformat(), zone) == start
    value = grain.value(start, zone)
    assert isinstance(value, datetime) == grain.sub_day
    if grain is Week:
        assert value.weekday() == 0
    if grain is Month:
        assert value.day == 1


@settings(deadline=None)
@given(st.sampled_from([QuarterHour, Hour]), places())
def test_sub_day_partitions_are_utc_instants_in_every_zone(grain, place):
    zone, instant = place
    assert grain.floor(instant, zone) == grain.floor(instant.astimezone(zone), ZoneInfo("UTC"))
    length = grain.next(grain.floor(instant, zone), zone) - grain.floor(instant, zone)
    assert length == timedelta(minutes=15 if grain is QuarterHour else 60)


@settings(deadline=None)
@given(grains, places())
def test_a_local_datetime_means_its_instant(grain, place):
    zone, instant = place
    local = instant.astimezone(zone)
    assert grain.floor(local, zone) == grain.floor(instant, zone)
    assert grain.is_boundary(local, zone) == grain.is_boundary(instant, zone)
    assert grain.next(grain.floor(instant, zone).astimezone(zone), zone) == grain.next(grain.floor(instant, zone), zone)


@settings(deadline=None)
@given(grains, grains, places())
def test_a_grain_is_made_of_another_only_if_all_its_partitions_are(coarse, fine, place):
    zone, instant = place
    assume(coarse.is_made_of(fine, zone))
    whole = coarse.containing(instant, zone)
    assert fine.is_boundary(whole.start, zone)
    assert fine.is_boundary(whole.end, zone)
    if not (coarse is Month and fine is QuarterHour):  # thousands of them, and the ends say it all
        parts = list(fine.partitions(whole, zone))
        assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)


@pytest.mark.parametrize(
    ("zone", "hours", "quarters"),
    [
        ("UTC", True, True),
        ("Europe/Berlin", True, True),
        ("Asia/Kolkata", False, True),
        ("Asia/Kathmandu", False, True),
        ("Australia/Lord_Howe", False, True),
        ("America/St_Johns", False, True),
        ("America/Caracas", False, True),  # half an hour off until 2016 only
    ],
)
def test_a_local_day_is_made_of_whole_utc_hours_where_the_offset_allows(zone, hours, quarters):
    for grain in (Day, Week, Month):
        assert grain.is_made_of(Hour, ZoneInfo(zone)) is hours
        assert grain.is_made_of(QuarterHour, ZoneInfo(zone)) is quarters


def test_how_grains_nest():
    nests = {(c.name, f.name) for c in GRAINS for f in GRAINS if c.is_made_of(f, ZoneInfo("UTC"))}
    assert {c.name for c in GRAINS if (c.name, "day") in nests} == {"day", "week", "month"}
    assert ("month", "week") not in nests
    assert ("hour", "day") not in nests
    assert ("15 minutes", "hour") not in nests


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("Atlantic/Azores", "2026-10-25", 25),
        ("Africa/Cairo", "2026-04-24", 23),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("UTC", "2026-03-29", 24),
    ],
)
def test_a_local_day_may_be_longer_or_shorter_and_is_whole(zone, day, hours):
    zone = ZoneInfo(zone)
    window = Day.unit(day, zone)
    assert window.end - window.start == timedelta(hours=hours)
    assert list(Day.partitions(window, zone)) == [window]
    parts = list(QuarterHour.partitions(window, zone))
    assert len(parts) == hours * 4
    assert {part.start.astimezone(zone).date() for part in parts} == {date.fromisoformat(day)}


@pytest.mark.parametrize("zone", NAMES)
def test_a_day_begins_with_the_first_instant_of_its_date(zone):
    zone, now = ZoneInfo(zone), datetime(2011, 6, 1, tzinfo=UTC)
    start = Day.floor(now, zone)
    for _ in range(400):
        start = Day.next(start, zone)
        assert (start - timedelta(seconds=1)).astimezone(zone).date() < start.astimezone(zone).date()


def test_a_zone_that_skipped_a_whole_date():
    apia = ZoneInfo("Pacific/Apia")
    days = list(Day.partitions(Window(Day.parse("2011-12-28", apia), Day.parse("2012-01-02", apia)), apia))
    assert [Day.label(day.start, apia) for day in days] == ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"]
    assert {day.end - day.start for day in days} == {timedelta(hours=24)}
    week = Week.containing(days[0].start, apia)
    assert week.end - week.start == timedelta(days=6)
    with pytest.raises(UsageError, match="there is no 2011-12-30 in Pacific/Apia: its clocks skipped that day"):
        Day.parse("2011-12-30", apia)


def test_a_month_with_a_skipped_date_is_whole():
    kwajalein = ZoneInfo("Pacific/Kwajalein")
    with pytest.raises(UsageError, match="there is no 1993-08-21"):
        Day.parse("1993-08-21", kwajalein)
    month = Month.unit("1993-08", kwajalein)
    assert Month.value(month.start, kwajalein) == date(1993, 8, 1)
    assert month.end - month.start == timedelta(days=30)


def test_clocks_that_jump_over_midnight():
    toronto = ZoneInfo("America/Toronto")  # 1919-03-30 23:30 became 1919-03-31 00:30
    day = Day.unit("1919-03-31", toronto)
    assert day.start == datetime(1919, 3, 31, 4, 30, tzinfo=UTC)
    assert Day.containing(day.start, toronto) == day
    assert Day.containing(day.start - timedelta(seconds=1), toronto).end == day.start


def test_clocks_set_back_over_midnight_do_not_tear_a_day_apart():
    johns = ZoneInfo("America/St_Johns")  # 2010-11-07 00:01 became 2010-11-06 23:01
    day = Day.unit("2010-11-07", johns)
    assert day.end - day.start == timedelta(hours=25)
    evening_again = day.start + timedelta(minutes=30)
    assert evening_again.astimezone(johns).date() == date(2010, 11, 6)
    assert Day.containing(evening_again, johns) == day


@pytest.mark.parametrize(
    ("grain", "text", "start"),
    [
        (QuarterHour, "2026-04-25T13:45", "2026-04-25T13:45+00:00"),
        (Hour, "2026-04-25T13", "2026-04-25T13:00+00:00"),
        (Hour, "2026-04-25T13:00Z", "2026-04-25T13:00+00:00"),
        (Hour, "2026-04-25", "2026-04-25T00:00+00:00"),
        (Day, " 2026-04-25 ", "2026-04-24T22:00+00:00"),
        (Day, "2026-04-25T00:00", "2026-04-24T22:00+00:00"),
        (Day, "2026-04-25T00:00:00+02:00", "2026-04-24T22:00+00:00"),
        (Week, "2026-W17", "2026-04-19T22:00+00:00"),
        (Week, "2026-04-20", "2026-04-19T22:00+00:00"),
        (Month, "2026-04", "2026-03-31T22:00+00:00"),
        (Month, "2026-04-01", "2026-03-31T22:00+00:00"),
    ],
)
def test_partitions_are_read_as_people_write_them(grain, text, start):
    assert grain.parse(text, ZoneInfo("Europe/Berlin")) == datetime.fromisoformat(start)


@pytest.mark.parametrize(
    ("grain", "text", "sentence"),
    [
        (
            QuarterHour,
            "2026-04-25T13:50",
            "is not the start of a 15 minutes: nearest are 2026-04-25T13:45 and 2026-04-25T14:00",
        ),
        (Hour, "2026-04-25T13:30", "nearest are 2026-04-25T13:00 and 2026-04-25T14:00"),
        (Day, "2026-04-25T12:00", "is not the start of a day: nearest are 2026-04-25 and 2026-04-26"),
        (Week, "2026-04-25", "is not the start of a week: nearest are 2026-04-20 and 2026-04-27"),
        (Month, "2026-04-25", "is not the start of a month: nearest are 2026-04 and 2026-05"),
        (Day, "yesterday", "'yesterday' is not a day: write it like 2026-04-25"),
        (Day, "", "'' is not a day: write it like 2026-04-25"),
        (Day, "2026-02-30", "is not a day"),
        (Day, "2026-04", "is not a day"),
        (Day, "0001-01-01", "is not a day"),
        (Day, "9999-12-31", "is not a day"),
        (Month, "9999-12", "is not a month: write it like 2026-04"),
        (Month, "2026-13", "is not a month"),
        (Week, "2026-W54", "is not a week: write it like 2026-04-20 (a Monday) or 2026-W17"),
        (Hour, "0001-01-01T00:00+14:00", "is not a hour: write it like 2026-04-25T13:00"),
        (Hour, "9999-12-31T23:00", "is not a hour"),
        (Week, "0001-01-02", "is not a week"),
        (Day, date(2026, 4, 25), "is not a day: write it like 2026-04-25"),
        (Day, None, "None is not a day"),
    ],
)
def test_what_is_off_the_grain_is_refused_with_the_way_to_write_it(grain, text, sentence):
    for read in (grain.parse, grain.unit):
        with pytest.raises(UsageError) as caught:
            read(text, ZoneInfo("Europe/Berlin"))
        assert sentence in caught.value.message


@settings(deadline=None)
@given(st.text("0123456789-T:WZ+. ٣é\n", max_size=18), grains)
def test_any_text_is_either_a_partition_or_a_clear_sentence(text, grain):
    zone = ZoneInfo("Asia/Kathmandu")
    with contextlib.suppress(UsageError):
        assert grain.is_boundary(grain.unit(text, zone).start, zone)


def test_a_window_off_the_grain_is_refused_with_the_nearest_start():
    window = Window(datetime(2026, 4, 25, tzinfo=UTC), datetime(2026, 4, 25, 12, tzinfo=UTC))
    with pytest.raises(UsageError) as caught:
        list(Day.partitions(window, ZoneInfo("UTC")))
    assert "the end of 2026-04-25/2026-04-25T12:00Z is not a boundary of the grain day in UTC" in caught.value.message
    assert "starts at 2026-04-25T00:00:00+00:00" in caught.value.message
    assert "whole partitions" in caught.value.next_step


def test_an_instant_without_zone_is_refused():
    for ask in (Day.floor, Hour.floor, Day.is_boundary, Hour.next):
        with pytest.raises(UsageError, match="an instant needs a time zone: 2026-04-25T00:00:00 has none"):
            ask(datetime(2026, 4, 25), ZoneInfo("UTC"))


def test_years_before_1000_are_written_with_four_digits():
    start = datetime(999, 5, 3, 4, tzinfo=UTC)
    assert Hour.label(start, ZoneInfo("UTC")) == "0999-05-03T04:00"
    assert Hour.parse(Hour.label(start, ZoneInfo("UTC")), ZoneInfo("UTC")) == start


def test_a_grain_called_with_a_column_is_a_partition():
    assert Day("order_date") == Partition(Day, "order_date")
    assert str(Day("order_date")) == "order_date by day"


@pytest.mark.parametrize("column", ["", " a", "a\nb", None, 5, "a\ud800", "${env:HOME}"])
def test_a_partition_column_must_be_a_name(column):
    with pytest.raises(DefinitionError, match="a partition column"):
        Day(column)


@pytest.mark.parametrize(
    "name", ["Mars/Phobos", "", "../../etc/passwd", "/etc/passwd", "Europe", None, 5, "\0", "ä" * 300]
)
def test_unknown_time_zones_are_refused(name):
    with pytest.raises(DefinitionError, match=r"unknown time zone .*: use a name such as UTC or Europe/Berlin"):
        zone_of(name)
