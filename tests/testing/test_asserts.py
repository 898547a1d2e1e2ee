"""Promises as assertions: each holds for a healthy step and fails for a faulty one, with a text that one can read."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from twice import Day, Overwrite, Pipeline, Table
from twice.errors import NotDeterministic, UsageError
from twice.testing import assert_deterministic, assert_idempotent, assert_separable, table_of

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
RAW = Table("lake.raw.orders", partition=Day("d"), schema="id BIGINT, amount DECIMAL(9,2), d DATE")
ROWS = [(1, "9.90", "2026-04-24"), (2, "5.00", "2026-04-24"), (3, "1.10", "2026-04-25"), (4, "7.25", "2026-04-25")]


def total(store="lake", **how):
    pipeline = Pipeline("totals", grain=Day)
    daily = Table(f"{store}.mart.totals", partition=Day("d"), key=["d"], write=Overwrite())

    @pipeline.step(reads={"orders": RAW}, writes=daily, **how)
    def add_up(orders):
        return orders.groupBy("d").agg(F.sum("amount").alias("amount"))

    return pipeline, add_up


def ranked(**how):
    pipeline = Pipeline("ranks", grain=Day)
    ranks = Table("lake.mart.ranks", partition=Day("d"), key=["id"], write=Overwrite())

    @pipeline.step(reads={"orders": RAW}, writes=ranks, **how)
    def rank(orders):
        return orders.withColumn("place", F.rank().over(Over.orderBy("amount", "id")))

    return pipeline


def growing():
    """A step that numbers its runs: a second run gives other rows."""
    pipeline = Pipeline("counts", grain=Day)
    counts = Table("lake.mart.counts", partition=Day("d"), key=["id"], write=Overwrite())
    calls = itertools.count()

    @pipeline.step(reads={"orders": RAW}, writes=counts)
    def number(orders):
        return orders.select("id", "d", F.lit(next(calls)).alias("run"))

    return pipeline


def test_a_healthy_step_keeps_all_three_promises_without_any_project(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline, add_up = total()
    inputs = {"orders": table_of(RAW, ROWS, spark=spark)}
    assert_idempotent(pipeline, DAY, inputs, spark=spark)
    assert_deterministic(add_up, DAY, inputs={"lake.raw.orders": ROWS})
    assert_separable(pipeline.find("add_up"), DAY, inputs)
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_numbers_its_runs_is_not_idempotent(spark):
    with pytest.raises(AssertionError) as found:
        assert_idempotent(growing(), DAY, {"orders": ROWS}, spark=spark)
    first, where, *rest = str(found.value).splitlines()
    assert first == "run-twice: a unit that is run twice has the same rows, and no new version; this does not hold"
    assert where == "number (lake.mart.counts): its rows differ after the second run"
    assert "  4 rows after one run, 4 after the second run; 2 changed" in rest or "; 4 changed" in rest[0]
    assert any(line.startswith("  run: ") for line in rest)
    assert any(line.startswith("  id=3: run ") for line in rest)
    assert not any(line.startswith("  repeat:") for line in rest)


def test_a_step_whose_rows_depend_on_their_order_is_not_deterministic(spark):
    pipeline = Pipeline("lists", grain=Day)
    lists = Table("lake.mart.lists", partition=Day("d"), key=["d"], write=Overwrite())

    @pipeline.step(reads={"orders": RAW}, writes=lists, nondeterministic="")
    def listed(orders):
        return orders.groupBy("d").agg(F.concat_ws(",", F.collect_list(F.col("id").cast("string"))).alias("ids"))

    rows = [(number, "1.00", DAY) for number in range(1, 9)]
    with pytest.raises((AssertionError, NotDeterministic)) as found:
        assert_deterministic(pipeline, DAY, {"orders": rows}, spark=spark)
    assert "listed" in str(found.value)


def test_a_step_that_ranks_over_everything_is_not_separable(spark):
    with pytest.raises(AssertionError) as found:
        assert_separable(ranked(), DAY, {"orders": ROWS}, spark=spark)
    text = str(found.value)
    assert "rank (lake.mart.ranks): one job over 2026-04-24 and 2026-04-25 gives other rows than one job each" in text
    assert "  id=4: place 2 | 3" in text
    assert "declare separable=False" in text


def test_what_cannot_be_checked_is_an_error_and_not_a_pass(spark):
    with pytest.raises(UsageError) as found:
        assert_separable(ranked(separable=False), DAY, {"orders": ROWS}, spark=spark)
    assert "rank (declared separable=False)" in str(found.value)
    assert "nothing was asserted" in str(found.value)
