"""The check `separable`: what it finds, what it leaves out, and what it does not take for a finding."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from twice import Day, Merge, Overwrite, Pipeline, Table, days
from twice.testing.trials import trial_of
from twice.verify.checks.separable import Separable
from twice.verify.running import make

pytestmark = pytest.mark.spark

EVENTS = Table("lake.raw.events", partition=Day("d"), schema="id BIGINT, name STRING, v INT, d DATE")
ROWS = [
    (1, "ann", 1, "2026-04-24"),
    (2, "bob", 1, "2026-04-24"),
    (1, "anna", 2, "2026-04-25"),
    (3, "cid", 1, "2026-04-25"),
]


def outcome(pipeline, spark):
    with trial_of(pipeline, "2026-04-25", {"events": ROWS}, spark) as trial:
        return make(Separable(), trial)


@pytest.mark.full
@pytest.mark.slow(reason="three steps in three cases")
def test_the_current_state_of_another_table_is_no_finding_and_a_step_on_its_past_is_left_out(spark):
    pipeline = Pipeline("people", grain=Day)
    people = Table("lake.core.people", key=["id"], write=Merge(version="v"))
    named = Table("lake.mart.named", partition=Day("d"), key=["id", "d"], write=Overwrite())
    seen = Table("lake.mart.seen", partition=Day("d"), key=["d"], write=Overwrite(), schema="d DATE, n BIGINT")

    @pipeline.step(reads={"events": EVENTS}, writes=people)
    def newest(events):
        return events.select("id", "name", "v")

    @pipeline.step(reads={"events": EVENTS, "people": people.latest()}, writes=named)
    def name_them(events, people):
        return events.select("id", "d").join(people.select("id", "name"), "id")

    @pipeline.step(reads={"events": EVENTS, "before": seen.window(lookback=days(1))}, writes=seen, depends_on_past=True)
    def count_all(events, before):
        total = before.agg(F.coalesce(F.max("n"), F.lit(0)).alias("m"))
        return events.groupBy("d").agg(F.count("*").alias("c")).crossJoin(total).selectExpr("d", "c + m AS n")

    found = outcome(pipeline, spark)
    assert found.findings == ()
    assert found.status == "passed"
    assert found.summary == (
        "2 tables: one job over 2026-04-24 and 2026-04-25 equals unit by unit; "
        "not compared: count_all (builds on its own past)"
    )


def test_a_step_that_loses_the_first_instant_of_its_window_is_found(spark):
    pipeline = Pipeline("late", grain=Day)
    kept = Table("lake.mart.kept", partition=Day("d"), key=["id", "d"], write=Overwrite())

    @pipeline.step(reads={"events": EVENTS}, writes=kept)
    def keep(events, window):
        return events.where(F.col("d").cast("timestamp") > F.lit(window.start))

    found = outcome(pipeline, spark)
    assert found.status == "failed"
    assert found.findings[0].what == "one job over 2026-04-24 and 2026-04-25 gives other rows than one job each"
    assert found.findings[0].evidence.text == "0 rows unit by unit, 2 in one job over both; 2 only in one job over both"


def test_a_step_that_cannot_take_both_units_at_once_is_found_by_its_refusal(spark):
    pipeline = Pipeline("one", grain=Day)
    daily = Table("lake.mart.daily", partition=Day("d"), key=["id", "d"], write=Overwrite())

    @pipeline.step(reads={"events": EVENTS}, writes=daily)
    def one_day(events, window):
        if (window.end - window.start).days > 1:
            raise ValueError("one day at a time")
        return events

    found = outcome(pipeline, spark)
    assert found.status == "failed"
    assert found.findings[0].step == "one_day"
    assert found.findings[0].what.startswith("one job over 2026-04-24 and 2026-04-25 is refused, one job each is not: ")
    assert "one day at a time" in found.findings[0].what


def test_steps_that_take_one_unit_at_a_time_leave_nothing_to_check(spark):
    pipeline = Pipeline("back", grain=Day)
    table = Table("lake.mart.back", partition=Day("d"), key=["id", "d"], write=Overwrite())

    @pipeline.step(reads={"events": EVENTS.window(lookback=days(1))}, writes=table)
    def look_back(events, window):
        return events.where(F.col("d") == F.lit(window.start.date()))

    found = outcome(pipeline, spark)
    assert (found.status, found.summary) == (
        "not run",
        "no step takes several units at once: look_back (looks back in events)",
    )
