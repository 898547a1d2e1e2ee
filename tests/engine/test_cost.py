"""What an attempt cost: Spark's own numbers, of its own jobs, also when it failed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.support.tables import extracting
from twice import Day, Overwrite, Pipeline, Table, Window, gates
from twice.engine.spark.metrics import sum_metrics
from twice.errors import GateFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NAMES = {"executor_seconds", "cpu_seconds", "bytes_read", "bytes_written", "bytes_shuffled"}
DAY = "2026-04-01"


def pipeline(lab: Any, rows: int, *guards: Any) -> Pipeline:
    table = Table(lab.name("t"), partition=Day("d"), key=["id"], write=Overwrite(), gates=list(guards))

    def fetch(spark: SparkSession, window: Window) -> DataFrame:
        made = spark.range(rows).withColumn("d", F.lit(window.start.date()))
        return made.withColumn("text", F.sha2(F.col("id").cast("string"), 512))

    return extracting(table, fetch)


def costs(lab: Any) -> list[dict[str, float]]:
    return [attempt.details.get("cost", {}) for attempt in lab.ledger.runs.list(limit=1)[0].attempts]


def test_an_attempt_keeps_what_it_cost_and_twice_the_rows_cost_more(lab):
    # The rows are made of nothing that is read: a gate that asks a query of its own reads and shuffles what was staged.
    lab.run(pipeline(lab, 2_000, gates.unique("text")), DAY)
    (small,) = costs(lab)
    lab.run(pipeline(lab, 40_000, gates.unique("text")), DAY)
    (large,) = costs(lab)
    assert set(small) == set(large) == NAMES
    assert all(large[name] > 0 for name in NAMES)
    # 128 bytes of text each, which no format makes much smaller: nobody else's jobs are in it.
    assert large["bytes_written"] > 10 * small["bytes_written"]
    assert 40_000 * 60 < large["bytes_written"] < 40_000 * 200


@pytest.mark.full
def test_jobs_of_others_are_not_counted(lab):
    lab.spark.range(1_000_000).repartition(4).selectExpr("sum(id)").collect()
    lab.run(pipeline(lab, 100, gates.unique("text")), DAY)
    lab.spark.range(1_000_000).repartition(4).selectExpr("sum(id)").collect()
    (cost,) = costs(lab)
    assert 0 < cost["bytes_shuffled"] < 1_000_000


def test_an_attempt_that_failed_has_its_cost_too(lab):
    with pytest.raises(GateFailed):
        lab.run(pipeline(lab, 2_000, gates.row_count(max=1)), DAY)
    (cost,) = costs(lab)
    assert cost["executor_seconds"] > 0
    assert cost["bytes_written"] > 0


@pytest.mark.full
def test_a_stage_that_was_tried_twice_is_paid_for_twice(spark, tmp_path):
    def work(rows: Any) -> Any:
        time.sleep(0.6)
        try:
            (tmp_path / "failed once").touch(exist_ok=False)
        except FileExistsError:
            return rows
        raise RuntimeError("the first attempt of the stage fails")

    context = spark.sparkContext
    context.setJobGroup("twice-paid-for", "two attempts")
    try:
        # A barrier stage before a shuffle is tried again as a whole
        worked = context.parallelize([1], 1).barrier().mapPartitions(work)
        assert worked.map(lambda row: (row, row)).groupByKey(1).keys().collect() == [1]
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert sum_metrics(spark, "twice-paid-for")["executor_seconds"] > 1.0


def test_what_is_fresh_costs_nothing(lab):
    built = pipeline(lab, 100)
    lab.run(built, DAY)
    lab.run(built, DAY, skip_fresh=True)
    assert costs(lab) == [{}]
    assert lab.spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
