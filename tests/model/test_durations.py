"""Durations: days follow the calendar, hours do not."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice import Duration, days, hours, minutes
from twice.errors import DefinitionError, UsageError

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Atlantic/Azores", "Pacific/Apia"]
zones = st.sampled_from([ZoneInfo(name) for name in ZONES])
instants = st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))


def test_a_calendar_day_over_the_change_of_clocks_has_23_or_25_hours():
    spring = datetime(2026, 3, 29, tzinfo=BERLIN).astimezone(UTC)
    autumn = datetime(2026, 10, 25, tzinfo=BERLIN).astimezone(UTC)
    assert days(1).after(spring, BERLIN) - spring == timedelta(hours=23)
    assert days(1).after(autumn, BERLIN) - autumn == timedelta(hours=25)
    assert days(1).before(days(1).after(autumn, BERLIN), BERLIN) == autumn


@settings(deadline=None)
@given(instants, st.integers(0, 500), zones)
def test_hours_and_minutes_are_exact_whatever_the_clocks_do(instant, count, zone):
    assert hours(count).after(instant, zone) == instant + timedelta(hours=count)
    assert minutes(count).before(instant, zone) == instant - timedelta(minutes=count)


def test_the_second_of_two_equal_clock_readings_stays_the_second():
    second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)  # 02:30 in Berlin, for the second time
    assert hours(1).after(second, BERLIN) == second + timedelta(hours=1)
    assert days(0).after(second, BERLIN) == second
    assert days(371).before(days(371).after(second, BERLIN), BERLIN) == second


@settings(deadline=None)
@given(instants, st.integers(0, 400), zones)
def test_days_keep_the_local_time_where_it_exists(instant, count, zone):
    wanted = instant.astimezone(zone).replace(tzinfo=None) + timedelta(days=count)
    reached = days(count).after(instant, zone).astimezone(zone).replace(tzinfo=None)
    skipped = reached - wanted
    assert abs(skipped) <= timedelta(days=1)
    exists = wanted.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wanted
    assert not exists or not skipped


@settings(deadline=None)
@given(instants, st.integers(0, 40), st.integers(0, 40), zones)
def test_more_days_never_lead_less_far(instant, fewer, more, zone):
    fewer, more = sorted((fewer, fewer + more))
    assert days(fewer).after(instant, zone) <= days(more).after(instant, zone)
    assert days(fewer).before(instant, zone) >= days(more).before(instant, zone)


def test_durations_in_words_and_in_truth():
    assert [str(d) for d in (days(1), days(7), hours(36), Duration())] == [
        "1 day",
        "7 days",
        "1 day, 12:00:00",
        "0 days",
    ]
    assert not days(0)
    assert not Duration()
    assert minutes(1)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: days(-1), "a duration cannot be negative: -1 days"),
        (lambda: hours(-1), "a duration cannot be negative"),
        (lambda: days(1.5), "a duration's days cannot be 1.5: write days(7) or hours(36)"),
        (lambda: days("7"), "a duration's days cannot be '7'"),
        (lambda: days(True), "a duration's days cannot be True"),
        (lambda: Duration(exact=3), "a duration's exact cannot be 3"),
        (lambda: hours("7"), "hours('7') needs a number"),
        (lambda: minutes(10**15), "needs a number"),
    ],
)
def test_what_is_no_duration_is_refused(build, sentence):
    with pytest.raises(DefinitionError) as caught:
        build()
    assert sentence in caught.value.message


def test_a_duration_that_leaves_the_calendar_says_so():
    with pytest.raises(UsageError, match=r"1000000 days before 2026-04-25.* is outside the calendar"):
        days(1_000_000).before(datetime(2026, 4, 25, tzinfo=UTC), BERLIN)
    with pytest.raises(UsageError, match="outside the calendar"):
        hours(24 * 4_000_000).after(datetime(2026, 4, 25, tzinfo=UTC), BERLIN)
