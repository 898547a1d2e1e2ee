"""The generated shop is the same everywhere, as messy as real feeds, and its truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from functools import reduce
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from examples.shop.dice import Dice
from examples.shop.generator import REGIONS, customers_feed, epoch_day, order_id_of, orders_feed
from examples.shop.truth import expected_orders

DAY = date(2026, 4, 25)
ORDERS, CUSTOMERS = 3_000, 200


def _rows(feed: DataFrame) -> list[Row]:
    return sorted(feed.collect())


def _deliveries(spark: SparkSession, first: date, last: date) -> DataFrame:
    dates = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return reduce(DataFrame.unionByName, (orders_feed(spark, d, ORDERS, customers=CUSTOMERS) for d in dates))


@pytest.fixture
def shuffle_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.spark
def test_dice_roll_the_same_in_python_and_in_spark(spark: SparkSession) -> None:
    rolled = spark.range(500).select(Dice(7).column("test", 1_000, F.lit(20_568).cast("bigint"), F.col("id")))
    assert [row[0] for row in rolled.collect()] == [Dice(7).roll("test", 1_000, 20_568, n) for n in range(500)]


@pytest.mark.spark
def test_feed_does_not_depend_on_partitioning(spark: SparkSession, shuffle_partitions: None) -> None:
    once = _rows(orders_feed(spark, DAY, ORDERS))
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    assert _rows(orders_feed(spark, DAY, ORDERS).repartition(5, "customer_id")) == once
    assert _rows(orders_feed(spark, DAY, ORDERS).coalesce(1)) == once
    assert _rows(orders_feed(spark, DAY, ORDERS, seed=8)) != once


@pytest.mark.spark
def test_feed_does_not_depend_on_the_session_time_zone(spark: SparkSession) -> None:
    instants = [
        F.col("order_id"),
        F.unix_seconds("ordered_at"),
        F.unix_seconds("updated_at"),
        F.col("ingestion_date"),
    ]
    once = _rows(orders_feed(spark, DAY, 200).select(*instants))
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
        assert _rows(orders_feed(spark, DAY, 200).select(*instants)) == once
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
def test_feed_reads_no_clock_and_no_random(spark: SparkSession) -> None:
    plan = orders_feed(spark, DAY, 10)._jdf.queryExecution().analyzed().toString().lower()
    assert not [name for name in ("rand", "uuid", "current_", "now(", "monotonically") if name in plan]


@pytest.mark.spark
def test_s20_late_orders_and_the_one_of_2359_are_really_there(spark: SparkSession) -> None:
    feed = orders_feed(spark, DAY, ORDERS).withColumn("delay", F.datediff("ingestion_date", F.to_date("ordered_at")))
    by_delay = {row.delay: row["count"] for row in feed.groupBy("delay").count().collect()}
    assert set(by_delay) == {0, 1, 2, 3}
    assert by_delay[0] > 0.9 * ORDERS
    evening = feed.where("date_format(ordered_at, 'HH:mm') >= '23:55'")
    assert evening.where("delay = 1").count() > 0
    assert evening.where("delay = 0").count() == 0


@pytest.mark.spark
def test_deliveries_repeat_correct_and_overtake_but_facts_stay(spark: SparkSession) -> None:
    all_days = _deliveries(spark, DAY, DAY + timedelta(days=3)).where(F.to_date("ordered_at") == F.lit(DAY)).cache()
    orders = all_days.groupBy("order_id").agg(
        F.count("*").alias("deliveries"),
        F.countDistinct("updated_at").alias("versions"),
        F.countDistinct("customer_id", "ordered_at").alias("facts"),
        F.countDistinct("status", "amount_usd").alias("contents"),
        F.countDistinct("ingestion_date").alias("dates"),
    )
    tally = orders.agg(
        F.count("*").alias("orders"),
        F.max("facts").alias("facts"),
        F.count_if(F.expr("deliveries = 2 AND versions = 1 AND contents = 1")).alias("duplicated"),
        F.count_if(F.expr("versions = 2 AND contents = 2 AND dates = 1")).alias("corrected_same_day"),
        F.count_if(F.expr("versions = 2 AND dates = 2")).alias("corrected_later"),
        F.count_if(F.expr("versions < contents")).alias("contradictions"),
    ).first()
    assert tally is not None
    assert (tally.orders, tally.facts, tally.contradictions) == (ORDERS, 1, 0)
    assert min(tally.duplicated, tally.corrected_same_day, tally.corrected_later) > 0
    assert all_days.select("ingestion_date", "delivery_no").distinct().count() == all_days.count()
    newest_first = all_days.groupBy("order_id").agg(
        F.min_by("updated_at", "ingestion_date").alias("came_first"), F.min("updated_at").alias("original")
    )
    assert newest_first.where("came_first > original").count() > 0
    assert all_days.where("order_id = " + str(order_id_of(DAY, 17))).count() >= 1
    all_days.unpersist()


@pytest.mark.spark
@pytest.mark.parametrize(
    "days_loaded", [pytest.param(0, marks=pytest.mark.full), 1, pytest.param(3, marks=pytest.mark.full)]
)
def test_expected_orders_agree_with_spark(spark: SparkSession, days_loaded: int) -> None:
    day = DAY + timedelta(days=1)
    through = day + timedelta(days=days_loaded)
    newest = (
        _deliveries(spark, day, through)
        .where(F.to_date("ordered_at") == F.lit(day))
        .groupBy("order_id")
        .agg(F.max(F.struct("updated_at", "customer_id", "status", "amount_usd")).alias("o"))
        .select("o.*")
    )
    loaded = [DAY + timedelta(days=n) for n in range((through - DAY).days + 1)]
    versions = spark.createDataFrame([Row(**row) for d in loaded for row in customers_feed(d, CUSTOMERS)])
    regions = versions.groupBy("customer_id").agg(F.max_by("region", "updated_at").alias("region"))
    found = (
        newest.join(regions, "customer_id")
        .groupBy("region")
        .agg(
            F.count("*").alias("orders"),
            F.sum(F.expr("IF(status = 'cancelled', 0, amount_usd)")).alias("usd"),
        )
        .collect()
    )

    expected = expected_orders(day, ORDERS, CUSTOMERS, through=through)

    assert sum(row.orders for row in found) == expected.orders
    assert {row.region: row.usd for row in found} == expected.revenue_by_region
    assert sum((row.usd for row in found), Decimal(0)) == expected.revenue
    assert (expected.orders == ORDERS) == (days_loaded == 3)


def test_everything_has_arrived_after_three_days() -> None:
    assert expected_orders(DAY, 500) == expected_orders(DAY, 500, through=DAY + timedelta(days=3))
    assert expected_orders(DAY, 500).orders == 500


def test_the_shop_is_the_same_on_every_machine() -> None:
    assert expected_orders(DAY, 1_000).revenue == Decimal("243694.24")


def test_customers_come_all_at_once_then_by_change() -> None:
    opening = list(customers_feed(DAY, CUSTOMERS))
    tuesday = list(customers_feed(DAY + timedelta(days=1), CUSTOMERS))
    everybody = set(range(1, CUSTOMERS + 1))
    assert {row["customer_id"] for row in opening} == everybody
    assert len(opening) > CUSTOMERS
    changed = {row["customer_id"] for row in tuesday} & everybody
    new = {row["customer_id"] for row in tuesday} - everybody
    assert 0 < len(changed) < CUSTOMERS / 5
    assert new == {CUSTOMERS + 1, CUSTOMERS + 2}
    assert not list(customers_feed(DAY - timedelta(days=1), CUSTOMERS))


def test_customer_versions_are_unique_and_older_ones_follow_newer_ones() -> None:
    rows = [row for n in range(10) for row in customers_feed(DAY + timedelta(days=n), CUSTOMERS)]
    assert rows == [row for n in range(10) for row in customers_feed(DAY + timedelta(days=n), CUSTOMERS)]
    assert len({(row["customer_id"], row["updated_at"]) for row in rows}) == len(rows)
    pairs = [(a, b) for a, b in pairwise(rows) if a["customer_id"] == b["customer_id"]]
    assert pairs
    assert all(str(a["updated_at"]) > str(b["updated_at"]) for a, b in pairs)
    assert {row["region"] for row in rows} == set(REGIONS)


def test_order_ids_read_as_date_and_number() -> None:
    assert order_id_of(DAY, 17) == 2026042500000017
    assert epoch_day(date(1970, 1, 2)) == 1
