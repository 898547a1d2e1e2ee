"""The same event delivered twice is one row: in one batch, in two batches, after a restart, at every level."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tests.streams.clicks import LEVELS, SCHEMA, click, dated
from tests.streams.conftest import SINKS
from tests.support.project import FULL
from twice import Hour, InsertOnly, Merge, Table, hours, run_stream
from twice.errors import KeyViolation, MergeRefused
from twice.streams import Process, RateSource, Windowed, Write

pytestmark = pytest.mark.spark

NO_STATISTICS = "spark.databricks.delta.stats.collect"
# `make test` proves every level on Iceberg, and the one that asks the table on Postgres, too.
CASES = [
    pytest.param(
        kind, level, marks=() if kind == "iceberg" or (kind, level) == ("postgres", "write") else pytest.mark.full
    )
    for kind in SINKS
    for level in LEVELS
]


@pytest.mark.parametrize(("kind", "level"), CASES, indirect=["kind"])
def test_s38_s39_an_event_that_is_delivered_again_is_one_row(clicks, level):
    # Given an event twice in a batch, again in the next one
    pipeline = clicks.declare(LEVELS[level])
    clicks.deliver(click(1), click(2), click(1))
    clicks.deliver(click(2), click(3))
    first = clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2", "e3"]
    assert (first.batches, first.rows_in, first.rows_out, first.duplicates) == (2, 5, 3, 2)
    # and again after a restart
    clicks.deliver(click(1), click(4))
    again = clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2", "e3", "e4"]
    assert (again.batches, again.rows_in, again.rows_out, again.duplicates) == (1, 2, 1, 1)
    # When the last commit marker is deleted (S39), Spark delivers the last batch once more
    before = clicks.place.versions("clicks")
    (clicks.checkpoint / "commits" / "2").unlink()
    (clicks.checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    replayed = clicks.run(pipeline)
    # Then nothing doubles, and nothing is committed
    assert clicks.ids() == ["e1", "e2", "e3", "e4"]
    assert clicks.place.versions("clicks") == before
    assert [(progress.batch, progress.status) for progress in clicks.told[-1:]] == [(2, "fresh")]
    assert replayed.rows_out == 0
    # and neither does a batch of repeats alone
    clicks.deliver(click(4), click(1))
    clicks.run(pipeline)
    assert clicks.place.versions("clicks") == before
    assert [(progress.batch, progress.status) for progress in clicks.told[-1:]] == [(3, "unchanged")]
    assert clicks.place.leftovers("clicks") == []
    assert clicks.lab.ledger.leases.list() == []


def test_a_stream_from_python(clicks):
    clicks.deliver(click(1), click(1))
    told = []
    how = {"spark": clicks.lab.spark, "ledger": clicks.lab.ledger, "config": clicks.lab.config}
    done = run_stream(clicks.declare(), "clicks", available_now=True, progress=told.append, **how)
    assert (done.status, done.rows_in, done.rows_out) == ("done", 2, 1)
    assert [progress.text.split(";")[0] for progress in told] == ["batch 0 published: 2 in, 1 out, 1 duplicate, 0 late"]


@pytest.mark.parametrize("level", [pytest.param("process", marks=pytest.mark.full), "write", "windowed"])
def test_of_repeats_in_a_batch_the_declared_order_decides_whichever_comes_first(clicks, level):
    pipeline = clicks.declare(LEVELS[level])
    clicks.deliver(click(1, "late copy", received=9), click(1, "first", received=1), click(1, "second", received=2))
    clicks.deliver(click(2, "second", received=5), click(2, "first", received=3))
    clicks.run(pipeline)
    assert clicks.place.rows("clicks", "event_id", "page") == [("e1", "first"), ("e2", "first")]


def test_a_key_is_never_written_twice_where_other_content_is_refused(clicks):
    pipeline = clicks.declare(table=clicks.table(write=InsertOnly()))
    clicks.deliver(click(1), click(1))
    clicks.run(pipeline)
    clicks.deliver(click(1, "other"))
    with pytest.raises(MergeRefused, match="with different content"):
        clicks.run(pipeline)
    assert clicks.place.rows("clicks", "event_id", "page") == [("e1", "home")]


@pytest.mark.parametrize("kind", ["iceberg", *(pytest.param(each, marks=pytest.mark.full) for each in SINKS[1:])],
                         indirect=True)  # fmt: skip
def test_a_versioned_event_lands_in_its_newest_version(clicks):
    table = clicks.table(write=Merge(version="received_at"))
    pipeline = clicks.declare(table=table)
    clicks.deliver(click(1, "new", received=2), click(1, "old", received=1), click(2, "only", received=1))
    clicks.deliver(click(1, "older", received=0), click(2, "newer", received=7))
    done = clicks.run(pipeline)
    assert clicks.place.rows("clicks", "event_id", "page") == [("e1", "new"), ("e2", "newer")]
    assert (done.rows_in, done.rows_out) == (5, 3)


@pytest.mark.full
def test_keys_are_looked_for_in_the_right_one_of_two_hours_that_a_clock_shows_twice(clicks, monkeypatch):
    # Given a table by the hour, and a driver in a zone whose clock goes back
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        table = clicks.table(partition=Hour("h"))
        pipeline = clicks.declare(
            make=lambda rows: rows.selectExpr("*", "date_trunc('hour', happened_at) AS h"), table=table
        )
        twice = [{**click(n), "happened_at": f"2026-10-25T0{n}:30:00Z"} for n in (0, 1)]
        clicks.deliver(*twice)
        clicks.run(pipeline)
        clicks.deliver(twice[0])
        clicks.deliver(twice[1])
        clicks.run(pipeline)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert clicks.ids() == ["e0", "e1"]


def test_the_function_of_a_process_stream_gets_new_events_only_and_may_make_several_rows_of_each(clicks):
    def per_letter(rows):
        spread = "explode(split(page, '')) AS letter"
        return rows.selectExpr("event_id", spread, "page", "happened_at", "received_at", "to_date(happened_at) AS d")

    table = clicks.table(key=["event_id", "letter"])
    pipeline = clicks.declare(Process("event_id", order="received_at"), per_letter, table)
    clicks.deliver(click(1, "ab"), click(1, "cd", received=5))
    clicks.deliver(click(1, "xyz"), click(2, "q"))
    clicks.run(pipeline)
    assert clicks.place.rows("clicks", "event_id", "letter") == [("e1", "a"), ("e1", "b"), ("e2", "q")]
    assert clicks.ids("clicks__seen") == ["e1", "e2"]


def test_no_new_event_is_lost_with_what_spark_holds_of_known_keys(clicks, kind):
    def forgetting(rows):
        rows.sparkSession.catalog.clearCache()  # as where the machine that holds the rows is lost
        return dated(rows)

    pipeline = clicks.declare(LEVELS["process"], forgetting)
    clicks.deliver(click(1))
    clicks.run(pipeline)
    clicks.deliver(click(1), click(2))
    done = clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2"]
    assert (done.rows_in, done.rows_out, done.duplicates) == (2, 1, 1)


def test_s40_an_event_outside_the_window_is_counted_and_landed_in_its_own_table(clicks):
    late = clicks.table("late", partition=None)
    pipeline = clicks.declare(Windowed("event_id", hours(1), event_time="happened_at", late=late))
    clicks.deliver(click(1, minutes=0))
    clicks.deliver(click(2, minutes=300))
    clicks.deliver(click(3, minutes=301))
    # Older than the newest event by more than the window: a late copy of the first one, and one that was never seen
    clicks.deliver(click(1, minutes=0), click(4, minutes=1), click(5, minutes=302))
    done = clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2", "e3", "e5"]
    assert clicks.ids("late") == ["e1", "e4"]
    assert (done.rows_out, done.late) == (4, 2)
    # The keys of the past are forgotten
    assert clicks.lab.ledger.streams.batches.list("web", "clicks", limit=1)[0].state_rows <= 3
    # When the run had died before it landed them, the next one does
    clicks.lab.sql("drop table lake." + clicks.place.space + ".late")
    batch = clicks.lab.ledger.streams.batches.list("web", "clicks", numbers=(3, 4))[0]
    clicks.lab.ledger.streams.batches.note(batch, {"late": None})
    clicks.run(pipeline)
    assert clicks.ids("late") == ["e1", "e4"]


@pytest.mark.parametrize("level", ["write", "windowed"])
def test_events_are_counted_as_they_came_also_where_the_function_leaves_some_out(clicks, level):
    pipeline = clicks.declare(LEVELS[level], make=lambda rows: dated(rows).where("page != 'bot'"))
    clicks.deliver(click(1), click(2, "bot"), click(3), click(1))
    done = clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e3"]
    assert (done.rows_in, done.rows_out, done.duplicates) == (4, 2, 1)


@pytest.mark.parametrize("level", ["process", "windowed"])
def test_a_function_that_makes_one_key_of_several_events_is_refused(clicks, level):
    pipeline = clicks.declare(
        LEVELS[level], make=lambda rows: dated(rows).withColumn("event_id", F.substring("event_id", 1, 2))
    )
    clicks.deliver(click(11), click(12), click(21))
    with pytest.raises(KeyViolation, match=r"several rows for one key of one batch:\s+event_id=e1, d="):
        clicks.run(pipeline)
    assert clicks.lab.ledger.leases.list() == []


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("postgres", marks=pytest.mark.full)], indirect=True)
def test_a_null_in_a_key_that_only_the_rows_have_is_seen_while_they_are_written(clicks, kind):
    # Given events with keys, and a table with one more column in its key
    table = clicks.table(key=["event_id", "page"])
    pipeline = clicks.declare(LEVELS["windowed"], table=table)
    clicks.deliver(click(1))
    clicks.run(pipeline)
    before = clicks.place.versions("clicks")
    clicks.deliver(click(2), {**click(3), "page": None})
    with pytest.raises(KeyViolation, match="null in the business key"):
        clicks.run(pipeline)
    assert clicks.ids() == ["e1"]
    assert clicks.place.versions("clicks") == before
    assert clicks.place.leftovers("clicks") == []


@pytest.mark.parametrize(("level", "table"), [("write", "clicks"), ("process", "clicks__seen")])
def test_of_keys_that_are_numbers_only_the_files_that_can_hold_them_are_read(clicks, level, table):
    # Given a table of three batches, whose keys are numbers that follow one another
    clicks.source = Table("landing.web.clicks", schema=SCHEMA.replace("event_id STRING", "event_id BIGINT"))
    pipeline = clicks.declare(LEVELS[level])
    for first in (10, 20, 30):
        clicks.deliver(*({**click(first + number), "event_id": first + number} for number in range(5)))
    clicks.run(pipeline)
    # When an event comes again, with a new one
    clicks.deliver(*({**click(number), "event_id": number} for number in (22, 25)))
    files = f"select file_path, readable_metrics.event_id.lower_bound from {clicks.place.name(table)}.files"
    for file, lowest in clicks.lab.sql(files):
        if lowest not in range(20, 25):
            Path(file.removeprefix("file:")).unlink()
    done = clicks.run(pipeline)
    # Then it is found without a look at the other files
    assert (done.rows_in, done.rows_out, done.duplicates) == (2, 1, 1)


def test_keys_that_are_not_utf8_are_found_again(clicks):
    # Given keys of bytes that are not UTF-8, which Python sees as other ones
    broken = "cast(concat(unhex('ff'), cast(event_id AS BINARY)) AS STRING)"
    pipeline = clicks.declare(make=lambda rows: dated(rows).withColumn("event_id", F.expr(broken)))
    clicks.deliver(click(1), click(2))
    clicks.run(pipeline)
    clicks.deliver(click(1), click(3))
    clicks.run(pipeline)
    assert len(clicks.ids()) == 3


@pytest.mark.parametrize("kind", ["delta"], indirect=True)
@pytest.mark.parametrize("level", ["windowed", pytest.param("write", marks=pytest.mark.full)])
def test_a_delta_table_that_keeps_no_statistics_gets_every_batch(clicks, level):
    # Given Spark told to collect none, so that no file says how many rows it has
    conf = clicks.lab.spark.sparkContext._jsc.sc().conf()
    conf.set(NO_STATISTICS, "false")
    try:
        pipeline = clicks.declare(LEVELS[level])
        clicks.deliver(click(1), click(2))
        first = clicks.run(pipeline)
        clicks.deliver(click(2), click(3))
        second = clicks.run(pipeline)
    finally:
        conf.remove(NO_STATISTICS)
    # Then the rows are counted and published all the same
    assert clicks.ids() == ["e1", "e2", "e3"]
    assert (first.rows_out, second.rows_out) == (2, 1)


@pytest.mark.parametrize(("level", "most"), [("windowed", 2), ("write", 8), ("process", 14)])
def test_a_batch_costs_few_jobs(clicks, level, most):
    pipeline = clicks.declare(LEVELS[level])
    clicks.deliver(click(1))
    clicks.run(pipeline)
    clicks.deliver(click(1), click(2), click(2))
    before = clicks.lab.jobs()
    clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2"]
    # Spark's defaults start a job for each stage of an adaptive plan.
    assert clicks.lab.jobs() - before <= most * (2 if FULL else 1)


@pytest.mark.full
def test_a_source_for_demos_lands_each_value_once(clicks):
    clicks.source = RateSource(rows_per_second=20)
    pipeline = clicks.declare(
        Write("value"),
        make=lambda rows: rows.selectExpr("value", "timestamp", "to_date(timestamp) AS d"),
        table=clicks.table(key=["value"]),
    )
    counts = []
    for _ in range(3):
        clicks.run(pipeline)
        values = sorted(row[0] for row in clicks.place.rows("clicks", "value"))
        assert values == list(range(len(values)))
        counts.append(len(values))
        time.sleep(1.5)
    assert counts[0] < counts[1] < counts[2]


def test_an_iceberg_table_and_a_stream_behind_it_see_each_event_once(clicks):
    # Given a stream into a table, and a stream that reads that table
    first = clicks.declare()
    clicks.deliver(click(1), click(2), click(1))
    clicks.deliver(click(2), click(3))
    clicks.run(first)
    snapshots = clicks.lab.sql(f"select operation from {clicks.place.name('clicks')}.snapshots")
    assert {row[0] for row in snapshots} == {"append"}
    clicks.source = first.find_stream(None).writes
    second = clicks.declare(table=clicks.table("copies"), name="copies", options={})
    clicks.run(second)
    assert clicks.ids("copies") == ["e1", "e2", "e3"]
    # When more comes, and the first one is delivered a batch again
    clicks.deliver(click(4), click(1))
    clicks.run(first)
    shutil.rmtree(clicks.checkpoint / "commits")
    clicks.run(first)
    clicks.run(second)
    # Then the reader downstream sees each event once
    assert clicks.ids("copies") == ["e1", "e2", "e3", "e4"]
