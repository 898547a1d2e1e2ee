"""What a run skips, keeps and marks: decided against the table, and for the window that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from tests.support.tables import extracting
from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Table, Whole, Window, gates
from twice.engine.status import status
from twice.errors import GateFailed, SchemaRefused, StepFailed, TwiceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, day DATE, n BIGINT, changed BIGINT"
ONE, TWO, THREE = "2026-04-01", "2026-04-02", "2026-04-03"


def feed(table: Table, rows: Callable[[str], list[dict[str, object]]]) -> Pipeline:
    """Build a pipeline of one extract that yields rows for a day."""
    pipeline = Pipeline("p", grain=Day)

    @pipeline.extract(writes=table)
    def fetch(window: Window) -> Iterator[Mapping[str, object]]:
        yield from rows(window.start.date().isoformat())

    return pipeline


def row(number: int, day: str, n: int = 0, changed: int = 1) -> dict[str, object]:
    return {"id": number, "day": datetime.fromisoformat(day).date(), "n": n, "changed": changed}


@pytest.mark.parametrize(
    "pattern",
    [
        Merge(version="changed"),
        pytest.param(InsertOnly(), marks=pytest.mark.full),
        pytest.param(Whole(), marks=pytest.mark.full),
    ],
    ids=lambda p: type(p).__name__,
)
def test_a_window_that_never_ran_is_not_fresh(lab, pattern):
    # Given a table without partitions, so one record serves every window
    table = Table(lab.name("t"), key=["id"], write=pattern, schema=SCHEMA)
    pipeline = feed(table, lambda day: [row(int(day[-2:]), day)])
    lab.run(pipeline, ONE)
    # When another day runs with --skip-fresh
    done = lab.run(pipeline, TWO, skip_fresh=True)
    # Then it is computed; and only then is it fresh
    assert done.steps[0].status == "published"
    assert 2 in {found["id"] for found in lab.rows("t")}
    assert lab.run(pipeline, TWO, skip_fresh=True).steps[0].status == "fresh"
    # And status, which reads the same records, can tell
    assert [found.state for step in status(lab.ledger, pipeline) for found in step.partitions] == ["done"]


@pytest.mark.parametrize("pattern", [Merge(version="changed"), pytest.param(InsertOnly(), marks=pytest.mark.full)],
                         ids=lambda p: type(p).__name__)  # fmt: skip
def test_nothing_to_merge_into_an_empty_table(lab, pattern):
    table = Table(lab.name("t"), key=["id"], write=pattern, schema=SCHEMA)
    quiet = feed(table, lambda day: [] if day == ONE else [row(1, day)])
    first = lab.run(quiet, ONE).steps[0]
    assert (first.status, first.rows) == ("unchanged", 0)
    assert lab.run(quiet, TWO).steps[0].rows == 1
    assert lab.run(quiet, ONE).steps[0].rows == 1


def test_an_older_window_does_not_come_back_after_a_newer_one_that_changed_nothing(lab):
    table = Table(lab.name("t"), key=["id"], write=Whole(), schema=SCHEMA)
    content = {ONE: 1, TWO: 1}
    pipeline = feed(table, lambda day: [row(1, ONE, content[day])])
    lab.run(pipeline, ONE)
    versions = lab.versions("t")
    assert lab.run(pipeline, TWO).steps[0].status == "unchanged"
    assert lab.versions("t") == versions
    content[ONE] = 99
    assert lab.run(pipeline, ONE).steps[0].status == "superseded"
    assert lab.rows("t")[0]["n"] == 1


def test_unchanged_is_said_of_the_table_as_it_is_now(lab):
    # Given a published day
    table = Table(lab.name("t"), partition=Day("day"), key=["id"], write=Overwrite(), schema=SCHEMA)
    meddle: list[str] = []

    def fetch(spark: SparkSession, window: Window) -> DataFrame:
        if meddle:
            meanwhile(lambda: lab.spark.sql(meddle.pop()))
        return spark.createDataFrame([tuple(row(1, ONE).values())], SCHEMA)

    pipeline = extracting(table, fetch)
    lab.run(pipeline, ONE)
    # When somebody empties it while the rerun reads its source, and so before it is staged
    meddle.append(f"delete from {lab.name('t')} where day = date'{ONE}'")
    # Then the run does not say unchanged of rows that are gone
    assert lab.run(pipeline, ONE).steps[0].status == "published"
    assert len(lab.rows("t")) == 1


def test_a_refused_attempt_with_a_new_column_does_not_lock_out_the_old_code(lab):
    def pipeline(*, extra: bool) -> Pipeline:
        guard = [gates.row_count(min=2)] if extra else []
        table = Table(lab.name("t"), partition=Day("day"), key=["id"], write=Overwrite(), gates=guard)

        def fetch(spark: SparkSession, window: Window) -> DataFrame:
            rows = spark.createDataFrame([tuple(row(1, ONE).values())], SCHEMA)
            return rows.withColumn("extra", F.lit(1)) if extra else rows.withColumn("n", F.lit(7).cast("bigint"))

        return extracting(table, fetch)

    lab.run(pipeline(extra=False), ONE)
    with pytest.raises(GateFailed):
        lab.run(pipeline(extra=True), ONE)
    lab.run(pipeline(extra=False), ONE)
    assert lab.rows("t")[0]["n"] == 7


def test_growth_of_a_merged_table_is_judged_after_the_merge(lab):
    table = Table(
        lab.name("t"), key=["id"], write=Merge(version="changed"), schema=SCHEMA, gates=[gates.row_count_change(0.5)]
    )
    sizes = {ONE: range(10), TWO: range(8, 12), THREE: range(100)}
    pipeline = feed(table, lambda day: [row(number, day) for number in sizes[day]])
    lab.run(pipeline, ONE)
    # Four rows into ten are no loss of 60 %
    with pytest.raises(TwiceError, match="different content"):
        lab.run(pipeline, TWO)
    sizes[TWO] = range(10, 12)
    assert lab.run(pipeline, TWO).steps[0].rows == 12
    sizes[THREE] = range(12, 100)
    with pytest.raises(GateFailed, match="row count within"):
        lab.run(pipeline, THREE)


def test_a_new_column_makes_no_dispute_where_nothing_else_changed(lab):
    def pipeline(*, extra: bool) -> Pipeline:
        table = Table(lab.name("t"), key=["id"], write=InsertOnly())

        def fetch(spark: SparkSession, window: Window) -> DataFrame:
            rows = spark.createDataFrame([tuple(row(1, ONE).values())], SCHEMA)
            return rows.withColumn("extra", F.lit(None).cast("string")) if extra else rows

        return extracting(table, fetch)

    lab.run(pipeline(extra=False), ONE)
    assert lab.run(pipeline(extra=True), TWO).steps[0].status == "unchanged"


def test_times_without_a_zone_are_refused(lab):
    table = Table(lab.name("t"), partition=Day("day"), write=Overwrite(), schema="day DATE, at TIMESTAMP")
    pipeline = Pipeline("p", grain=Day)

    @pipeline.extract(writes=table)
    def fetch(window: Window) -> Iterator[Mapping[str, object]]:
        yield {"day": window.start.date(), "at": datetime(2026, 4, 1, 12)}

    with pytest.raises(StepFailed, match="without a time zone"):
        lab.run(pipeline, ONE)


def test_a_date_cannot_tell_hours_apart(lab):
    from twice import Hour

    raw = lab.source("raw", "day date, n bigint", by="day", event_time="day")
    table = Table(lab.name("t"), partition=Hour("hour"), write=Overwrite())
    pipeline = Pipeline("p", grain=Hour)

    @pipeline.step(reads={"raw": raw}, writes=table)
    def hourly(raw):
        return raw

    with pytest.raises(SchemaRefused, match="is a date"):
        lab.run(pipeline, "2026-04-01T13:00")
