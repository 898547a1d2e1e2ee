"""A run of one window opens the files of that window, and no others: the executed plan says so."""

from __future__ import annotations

import pytest

from twice import Day, Hour, Overwrite, Pipeline, Table

pytestmark = pytest.mark.spark
PARTS = 6


def executed(lab, table, grain, for_, **source):
    """Run a pipeline that copies a table; return its input's plan and how many data files Spark opened for it."""
    seen = []
    pipeline = Pipeline("shop", grain=grain)
    target = Table(lab.name("copy"), partition=grain("place"), key=["id"], write=Overwrite())

    @pipeline.step(reads={"rows": Table(table, **source)}, writes=target)
    def copy(rows):
        rows.collect()
        plan = rows._jdf.queryExecution().executedPlan()
        leaf = plan.collectLeaves().apply(0)
        files = {
            leaf.metrics().get(name).get().value() for name in ("resultDataFiles",) if leaf.metrics().contains(name)
        }
        seen.append((plan.toString(), files, len(rows.inputFiles())))
        return rows

    lab.run(pipeline, for_)
    return seen[0]


def days(lab, name):
    lab.spark.sql(
        f"create table {lab.name(name)} using iceberg partitioned by (place) as select id, "
        f"date_add(date'2026-04-21', cast(id % {PARTS} as int)) as place, "
        f"timestamp'2026-04-21 12:00:00Z' + make_dt_interval(cast(id % {PARTS} as int)) as at from range(60)"
    )


def test_days_of_an_iceberg_table(lab):
    days(lab, "days")
    plan, files, _ = executed(lab, lab.name("days"), Day, "2026-04-23", partition=Day("place"))
    assert "place >= 20566" in plan or "place >=" in plan
    assert files == {1}
    assert len(lab.rows("copy")) == 10


def test_hours_of_an_iceberg_table(lab):
    lab.spark.sql(
        f"create table {lab.name('hours')} using iceberg partitioned by (place) as select id, "
        f"timestamp'2026-04-23 00:00:00Z' + make_dt_interval(0, cast(id % {PARTS} as int)) as place from range(60)"
    )
    _, files, _ = executed(lab, lab.name("hours"), Hour, "2026-04-23T02", partition=Hour("place"))
    assert files == {1}
    assert len(lab.rows("copy")) == 10


def test_event_time_finds_the_files_of_an_iceberg_table_by_their_bounds(lab):
    days(lab, "days")
    _, files, _ = executed(lab, lab.name("days"), Day, "2026-04-23", event_time="at")
    assert files == {1}


def test_the_cut_by_event_time_is_a_literal_when_the_plan_is_made(lab):
    days(lab, "days")
    plan, _, _ = executed(lab, lab.name("days"), Day, "2026-04-23", event_time="at")
    assert "timestamp_micros" not in plan
