"""S17, S20, S22: tables as contracts, and how much of them a step sees."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice import (
    Day,
    Duration,
    Hour,
    InsertOnly,
    Merge,
    Month,
    Overwrite,
    QuarterHour,
    Scope,
    Table,
    Week,
    Whole,
    Window,
    days,
    gates,
    hours,
)
from twice.errors import DefinitionError
from twice.model.names import TableName

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NAME = "lake.core.t"
DAY = Day("day")


def daily(**more) -> Table:
    return Table(NAME, partition=DAY, **more)


def test_a_table_knows_its_name_and_partition_columns():
    table = Table("lake.core.`my table`", partition=DAY, dimensions=["tenant"], key=["id"], write=Overwrite())
    assert table.name == "lake.core.`my table`"
    assert table.id == TableName(("lake", "core", "my table"))
    assert table.partition_columns == ("day", "tenant")
    assert repr(table) == "Table(lake.core.`my table`)"
    assert table.key == ("id",)


def test_a_schema_may_be_a_mapping():
    assert Table(NAME, schema={"id": "bigint", "order date": "date"}).schema == "`id` bigint, `order date` date"


def test_a_key_of_one_column_is_given_by_its_name_alone():
    assert Table(NAME, key="order_id").key == ("order_id",)
    assert Table(NAME, key="order_id", write=Merge(version="v")).key == Table(NAME, key=["order_id"]).key


def test_a_table_sees_its_part_of_a_scope():
    run = Scope.of(Day.unit("2026-04-25", BERLIN), {"tenant": "acme", "region": "eu"})
    assert daily(dimensions=["tenant"]).scope(run) == Scope.of(run.window, {"tenant": "acme"})
    assert Table(NAME).scope(run) == Scope.of(None)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Table(NAME, key=""), "a column name is empty"),
        (lambda: Table(NAME, mutable="email"), 'mutable="email" must be a list: ["email"]'),
        (lambda: Table(NAME, dimensions="tenant"), 'dimensions="tenant" must be a list: ["tenant"]'),
        (lambda: Table(NAME, personal="email"), 'personal="email" must be a list: ["email"]'),
        (lambda: Table(NAME, key=None), "key=None must be a list: key=[…]"),
        (lambda: Table(NAME, gates=gates.not_null("a")), "must be a list: gates=[…]"),
        (lambda: Table(NAME, gates=[len]), "or gates.check(…) around a function of your own"),
        (lambda: Table(NAME, key=[5]), "a column name must be a text, not 5"),
        (lambda: Table(NAME, key=["a", "b", "A"]), "key names A, a more than once"),
        (lambda: Table(NAME, dimensions=["a", "a"]), "dimensions names a more than once"),
        (lambda: Table(NAME, key=[""]), "a column name is empty"),
        (lambda: Table(NAME, key=["_twice_window"]), "_twice_window belongs to twice and cannot be declared"),
        (lambda: Table(NAME, partition=Day("_TWICE_window")), "belongs to twice"),
        (lambda: Table(NAME, schema={"_twice_loaded_at": "date"}), "belongs to twice"),
        (lambda: Table(NAME, schema={"": "date"}), "a column name is empty"),
        (lambda: Table(NAME, event_time=""), "a column name is empty"),
        (lambda: Table(NAME, partition=Day), 'partition needs a column: write Day("order_date")'),
        (lambda: Table(NAME, partition="day"), 'partition needs a column: write Day("order_date")'),
        (lambda: daily(dimensions=["Day"]), "day is the partition already: leave it out of dimensions="),
        (lambda: Table(NAME, write=Overwrite()), 'add partition=Day("…"), or use Whole()'),
        (lambda: daily(write=Whole()), "leave partition= out, or use Overwrite()"),
        (lambda: Table(NAME, write=Whole(), dimensions=["t"]), "leave dimensions= out, or use Overwrite()"),
        (lambda: Table(NAME, write=Merge(version="v")), "Merge needs the business key: add key=[…]"),
        (lambda: daily(write=InsertOnly()), "InsertOnly needs the business key: add key=[…]"),
        (lambda: Table(NAME, write=Merge(version="v"), key=["id", "V"]), "leave it out of key="),
        (lambda: Table(NAME, write=Merge(version="v", tombstone="d"), key=["d"]), "tombstone d is part of the key"),
        (lambda: Merge(version="v", created="c"), "name the column that marks deleted rows"),
        (lambda: Table(NAME, write=Merge(version=""), key=["id"]), "a column name is empty"),
        (lambda: daily(write=Overwrite), "write= must be Overwrite(), Merge(version=…), InsertOnly() or Whole()"),
        (lambda: daily(write="append"), "or Whole(), got 'append'"),
        (lambda: InsertOnly(on_conflict="ignore"), 'write "fail" or "keep"'),
        (lambda: daily(lateness=timedelta(days=3)), "lateness= must be a duration such as days(3)"),
        (lambda: daily(lateness=3), "such as days(3), got 3"),
        (lambda: daily(on_late="drop"), 'write "reopen", "ignore" or "fail"'),
        (lambda: Table(NAME, valid="valid_from"), 'write valid=("valid_from", "valid_to")'),
        (lambda: Table(NAME, valid=("valid_from",)), 'write valid=("valid_from", "valid_to")'),
        (lambda: Table(NAME).window(), "so it cannot be cut to a window"),
        (lambda: daily().window(lookback=7), "such as days(7), got 7"),
        (lambda: daily().window(lookback=timedelta(7)), "lookback= must be a duration such as days(7)"),
        (lambda: Table(NAME).as_of("at"), 'declare valid=("valid_from", "valid_to")'),
        (lambda: Table(NAME, valid=("a", "b")).as_of(""), "a column name is empty"),
    ],
)
def test_a_table_that_could_not_keep_its_promise_is_refused_with_what_to_write(build, sentence):
    with pytest.raises(DefinitionError) as caught:
        build()
    assert sentence in caught.value.message


@pytest.mark.parametrize("key", ["email", "EMAIL"])
def test_s17_a_mutable_column_is_no_business_key(key):
    with pytest.raises(DefinitionError) as caught:
        Table(NAME, key=["tenant", key], mutable=["email"], write=Merge(version="v"))
    assert f"{key} is declared mutable" in caught.value.message
    assert "Use an identifier that never changes" in caught.value.message


def test_s22_reading_the_current_state_is_visible_in_words():
    table = Table(NAME, valid=("valid_from", "valid_to"))
    assert table.latest().text == "lake.core.t as of the run"
    assert table.as_of("ordered_at").text == "lake.core.t as of ordered_at"
    assert daily().window(lookback=days(7)).text == "lake.core.t in the window, 7 days back"
    assert daily().window().text == "lake.core.t in the window"


def test_latest_and_as_of_are_not_cut_by_partition():
    window = Day.unit("2026-04-25", BERLIN)
    table = daily(valid=("valid_from", "valid_to"), event_time="at")
    as_of_at = table.as_of("at").among([table.window()])
    latest, as_of = (read.cut(window, days(3), BERLIN) for read in (table.latest(), as_of_at))
    assert (latest.partitions, latest.event) == (None, None)
    assert (as_of.partitions, as_of.event) == (None, window)


def test_s22_versions_are_cut_to_what_is_seen_of_their_column():
    window = Day.unit("2026-04-25", BERLIN)
    prices = Table("lake.core.prices", valid=("valid_from", "valid_to"))
    orders = Table("lake.raw.orders", partition=Day("arrived_on"), event_time="ordered_at")
    weekly = Table("lake.raw.visits", partition=Week("week"))

    def seen(column, *others):
        return prices.as_of(column).among(others).cut(window, days(3), BERLIN)

    back = orders.window(lookback=days(7))
    assert seen("ordered_at", orders.window()).event == window
    assert seen("Ordered_At", orders.window(), back).event == Window(days(7).before(window.start, BERLIN), window.end)
    # Rows of the day arrive up to three days later, and until then their day of arrival is not bounded by the day.
    assert seen("arrived_on", orders.window()).event == Window(window.start, days(3).after(window.end, BERLIN))
    assert seen("week", weekly.window()).event == Week.unit("2026-W17", BERLIN)
    for unbounded in (seen("shipped_at", back), seen("ordered_at", orders.latest()), seen("ordered_at")):
        assert (unbounded.partitions, unbounded.event) == (None, None)


def test_s20_late_rows_are_looked_for_in_later_partitions_and_chosen_by_event_time():
    window = Day.unit("2026-10-25", BERLIN)  # 25 hours
    cut = daily(event_time="at").window(lookback=days(1)).cut(window, days(3), BERLIN)
    assert cut.event is not None
    assert cut.partitions is not None
    assert cut.event.start == Day.parse("2026-10-24", BERLIN)
    assert cut.event.end == window.end
    assert [Day.label(part.start, BERLIN) for part in Day.partitions(cut.partitions, BERLIN)] == [
        "2026-10-24",
        "2026-10-25",
        "2026-10-26",
        "2026-10-27",
        "2026-10-28",
    ]


def test_lateness_of_part_of_a_day_reads_the_whole_next_partition():
    window = Day.unit("2026-04-25", BERLIN)
    cut = daily(event_time="at").window().cut(window, hours(3), BERLIN)
    assert cut.partitions.end == Day.parse("2026-04-27", BERLIN)
    assert cut.event == window


def test_lateness_means_nothing_to_an_input_cut_by_business_date():
    window = Day.unit("2026-04-25", BERLIN)
    cut = daily().window().cut(window, days(3), BERLIN)
    assert (cut.partitions, cut.event) == (window, None)


GRAINS = [QuarterHour, Hour, Day, Week, Month]
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Atlantic/Azores", "Pacific/Apia")]
durations = st.builds(
    Duration, st.integers(0, 9), st.sampled_from([timedelta(0), timedelta(minutes=7), timedelta(hours=30)])
)


@settings(deadline=None)
@given(
    grain=st.sampled_from(GRAINS),
    unit=st.sampled_from(GRAINS),
    zone=st.sampled_from(ZONES),
    instant=st.datetimes(datetime(2011, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    lookback=durations,
    lateness=durations,
    by_event=st.booleans(),
)
def test_a_cut_is_made_of_whole_partitions_and_no_more_than_needed(
    grain, unit, zone, instant, lookback, lateness, by_event
):
    table = Table(NAME, partition=grain("p"), event_time="at" if by_event else None)
    window = unit.containing(instant, zone)
    cut = table.window(lookback=lookback).cut(window, lateness, zone)
    first = lookback.before(window.start, zone)
    last = lateness.after(window.end, zone) if by_event else window.end
    assert cut.partitions is not None
    assert grain.is_boundary(cut.partitions.start, zone)
    assert grain.is_boundary(cut.partitions.end, zone)
    assert grain.containing(first, zone).start == cut.partitions.start
    assert grain.containing(last - timedelta(microseconds=1), zone).end == cut.partitions.end
    if by_event:
        assert (cut.event.start, cut.event.end) == (first, window.end)
        assert cut.partitions.covers(cut.event)
    else:
        assert cut.event is None
