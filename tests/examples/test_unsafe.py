"""Each unsafe script really breaks, and in the way its docstring says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.shop.generator import orders_feed
from examples.shop.truth import expected_orders
from examples.unsafe import append, foreach_batch, row_number, sequence, unversioned_merge, wall_clock

pytestmark = [pytest.mark.spark, pytest.mark.full]

DAY = date(2026, 4, 25)
ORDERS = 250
SIZE = ["--date", str(DAY), "--orders", str(ORDERS)]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"lake.unsafe.{request.node.originalname}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")


@pytest.fixture
def time_zone(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def _count(spark: SparkSession, table: str) -> int:
    return spark.table(table).count()


def _revenue(spark: SparkSession, table: str) -> Decimal:
    earned = spark.table(table).where("status <> 'cancelled'").agg(F.sum("amount_usd")).collect()[0][0]
    return Decimal(earned)


def test_s01_append_keeps_the_half_of_a_failed_attempt(spark: SparkSession, table: str) -> None:
    assert append.main([table, *SIZE, "--fail-after-rows", "180"], spark) == 1
    assert _count(spark, table) == 180
    assert append.main([table, *SIZE], spark) == 0
    assert _count(spark, table) == 430
    assert _revenue(spark, table) > expected_orders(DAY, ORDERS).revenue


def test_s02_append_doubles_a_day_that_runs_twice(spark: SparkSession, table: str) -> None:
    append.main([table, *SIZE], spark)
    assert (_count(spark, table), _revenue(spark, table)) == (ORDERS, expected_orders(DAY, ORDERS).revenue)
    append.main([table, *SIZE], spark)
    assert (_count(spark, table), _revenue(spark, table)) == (
        2 * ORDERS,
        2 * expected_orders(DAY, ORDERS).revenue,
    )


def test_s03_append_makes_700_rows_of_300_in_three_tries(spark: SparkSession, table: str) -> None:
    day = ["--date", str(DAY), "--orders", "300"]
    exits = [
        append.main([table, *day, *fail], spark)
        for fail in (["--fail-after-rows", "100"], ["--fail-after-rows", "300"], [])
    ]
    assert exits == [1, 1, 0]
    assert _count(spark, table) == 700


def test_s19_wall_clock_leaves_the_wanted_day_alone(spark: SparkSession, table: str) -> None:
    long_ago = date(2020, 4, 25)
    orders_feed(spark, long_ago, ORDERS).createOrReplaceTempView("old_deliveries")
    assert wall_clock.main([table, "--date", str(long_ago), "--input", "old_deliveries"], spark) == 0
    assert _count(spark, table) == 0


def test_s19_wall_clock_gives_two_answers_at_the_same_moment(spark: SparkSession, table: str, time_zone: None) -> None:
    today = datetime.now(timezone.utc).date()
    feeds = (orders_feed(spark, today + timedelta(days=n), ORDERS) for n in range(-4, 3))
    reduce(DataFrame.unionByName, feeds).createOrReplaceTempView("recent_deliveries")
    loaded = []
    for zone in ("Etc/GMT+12", "Pacific/Kiritimati"):  # 26 hours apart: never the same date
        spark.conf.set("spark.sql.session.timeZone", zone)
        wall_clock.main([table, "--input", "recent_deliveries"], spark)
        loaded.append({str(row[0]) for row in spark.table(table).select("order_date").distinct().collect()})
    assert len(loaded[0]) == 1
    assert len(loaded[1]) == 2


def test_s19_wall_clock_loads_other_content_each_time(spark: SparkSession, table: str) -> None:
    contents = []
    for _ in range(2):
        wall_clock.main([table, "--orders", str(ORDERS)], spark)
        contents.append(spark.table(table).select("loaded_at").distinct().collect())
    assert contents[0] != contents[1]


def test_s20_wall_clock_puts_late_orders_into_the_wrong_day(spark: SparkSession, table: str) -> None:
    wall_clock.main([table, "--orders", str(ORDERS)], spark)
    assert spark.table(table).where("to_date(ordered_at) <> order_date").count() > 0


def test_s23_sequence_gives_every_order_another_key(spark: SparkSession, table: str) -> None:
    keys = []
    for _ in range(2):
        sequence.main([table, *SIZE], spark)
        keys.append({row.order_id: row.order_sk for row in spark.table(table).collect()})
    assert len(keys[0]) == len(keys[1]) == _count(spark, table) == ORDERS
    assert not set(keys[0].values()) & set(keys[1].values())


def test_s23_row_number_depends_on_how_the_rows_lie(spark: SparkSession, table: str) -> None:
    feeds = [orders_feed(spark, DAY + timedelta(days=n), 2_000) for n in range(4)]
    deliveries = reduce(DataFrame.unionByName, feeds)
    contents = []
    for order in (F.col("updated_at").asc(), F.col("updated_at").desc()):
        deliveries.coalesce(1).sortWithinPartitions(order).localCheckpoint().createOrReplaceTempView("deliveries")
        row_number.main([table, "--date", str(DAY), "--input", "deliveries"], spark)
        contents.append({row.order_id: (row.status, row.amount_usd) for row in spark.table(table).collect()})
    assert contents[0].keys() == contents[1].keys()
    assert contents[0] != contents[1]


def test_s13_unversioned_merge_inserts_a_customer_twice_and_then_fails(spark: SparkSession, table: str) -> None:
    day = ["--date", str(DAY), "--customers", "100"]
    unversioned_merge.main([table, *day], spark)
    assert spark.table(table).groupBy("customer_id").count().where("count > 1").count() > 0
    before = _count(spark, table)
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        unversioned_merge.main([table, *day], spark)
    assert _count(spark, table) == before


def test_s14_unversioned_merge_brings_old_values_back(spark: SparkSession, table: str) -> None:
    def load(day: date) -> dict[int, datetime]:
        unversioned_merge.main([table, "--date", str(day), "--customers", "200", "--drop-duplicates"], spark)
        return {row.customer_id: row.updated_at for row in spark.table(table).collect()}

    monday = load(DAY)
    tuesday = load(DAY + timedelta(days=1))
    changed = [customer for customer in monday if tuesday[customer] > monday[customer]]
    again = load(DAY)
    assert changed
    assert all(again[customer] < tuesday[customer] for customer in changed)


def test_scripts_explain_themselves_and_know_nothing_of_twice() -> None:
    scripts = [append, foreach_batch, row_number, sequence, unversioned_merge, wall_clock]
    assert all("What breaks:" in str(script.__doc__) for script in scripts)
    names = ", ".join(script.__name__ for script in scripts)
    code = f"import sys, {names}; assert 'twice' not in sys.modules; {append.__name__}.main(['--help'])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "What breaks:" in shown.stdout
