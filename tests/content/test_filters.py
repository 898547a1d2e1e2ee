"""Cuts by when rows happened, where the clocks do not make it easy."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from twice import Day, Hour, Table
from twice.content.filters import happened_in
from twice.model.grains import local_cut, zone_of
from twice.model.windows import Window
from twice.store.sql.read.reading import event_span
from twice.store.sql.schema.types import Column

# Days that begin at 01:00, because the clocks skip midnight.
SKIPPED = [
    ("Africa/Cairo", "2026-04-24"),
    ("America/Santiago", "2026-09-06"),
    ("America/Havana", "2026-03-08"),
    ("Asia/Beirut", "2026-03-29"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "day"), SKIPPED)
def test_local_times_are_cut_by_their_date_also_where_the_clocks_skip_midnight(spark, name, day):
    zone = zone_of(name)
    today, half_past = date.fromisoformat(day), datetime.fromisoformat(f"{day} 00:30:00")
    # No clock showed half past midnight, but a source without zones may have written it
    times = [half_past + timedelta(hours=hours) for hours in (-1, 0, 1, 23, 24)]
    rows = spark.createDataFrame([(at, at.date()) for at in times], "at timestamp_ntz, d date")
    starts = [today - timedelta(days=1), today, today + timedelta(days=1)]
    windows = [Day.unit(start.isoformat(), zone) for start in starts]
    # Dates are cut the same way
    cuts = [happened_in(rows.schema, name, window, zone, "t") for name in ("at", "d") for window in windows]
    found = rows.select("at", F.array(*cuts).alias("cuts")).collect()
    assert [row["at"] for row in found] == times
    for at, inside in found:
        assert inside == [at.date() == start for start in starts] * 2
    assert {at.date() for at in times} == {*starts}


@pytest.mark.parametrize(("name", "day"), SKIPPED)
def test_a_database_is_asked_for_the_same(name, day):
    zone = zone_of(name)
    window, database = Day.unit(day, zone), SimpleNamespace(quoted=lambda text: text)
    table = Table("shop.public.orders", event_time="at")
    span = event_span(database, table, (Column("at", "timestamp without time zone"),), window, zone)
    assert span.start == datetime.fromisoformat(f"{day} 00:00:00")
    dated = event_span(database, table, (Column("at", "date"),), window, zone)
    assert (dated.start, dated.end - dated.start) == (date.fromisoformat(day), timedelta(days=1))


def test_other_instants_cut_where_the_clock_shows_them():
    zone = zone_of("Europe/Berlin")
    window = Window(Hour.parse("2026-04-24T10:00", zone_of("UTC")), Hour.parse("2026-04-24T11:00", zone_of("UTC")))
    assert local_cut(window.start, zone) == datetime.fromisoformat("2026-04-24T12:00:00")
    assert local_cut(Day.parse("2026-04-24", zone), zone) == datetime.fromisoformat("2026-04-24T00:00:00")
