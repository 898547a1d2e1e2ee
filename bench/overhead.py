"""What the promise costs: the shop's fact and summary steps, by twice and by hand.

One run whose window spans 30 daily partitions of 100,000 orders, with default gates and digest,
against the same transformation in plain PySpark with one Iceberg overwrite each, without and with
the usual assertions after the write (row count, unique key). Interleaved, medians of 5.

    python bench/overhead.py [--orders 3000000] [--days 30] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.shop import pipeline as shop
from examples.shop.generator import LATEST_ARRIVAL_DAYS, orders_feed
from twice import Day, Overwrite, Pipeline, Table, days, gates
from twice import config as configuration
from twice.api import runtime
from twice.engine.plan import plan
from twice.engine.run import Runtime, execute

START = date(2026, 1, 1)
RAW = "lake.raw.orders"
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "6g"
"spark.sql.shuffle.partitions" = "4"
"""


def land(spark: SparkSession, count: int, orders: int) -> None:
    """Write the raw orders once; both sides read them."""
    spark.sql("create namespace if not exists lake.raw")
    feeds = [orders_feed(spark, START + timedelta(days=n), orders // count) for n in range(count + LATEST_ARRIVAL_DAYS)]
    first, *rest = feeds
    first.writeTo(RAW).using("iceberg").partitionedBy(F.col("ingestion_date")).create()
    for feed in rest:
        feed.writeTo(RAW).append()


def by_twice(shared: Runtime, round_: str, count: int) -> None:
    """Run the two steps as one pipeline run."""
    raw = Table(RAW, partition=Day("ingestion_date"), event_time="ordered_at")
    facts = Table(
        f"lake.{round_}.fct_orders",
        partition=Day("order_date"),
        key=["order_id"],
        write=Overwrite(),
        lateness=days(3),
        gates=[gates.row_count(min=1), gates.not_null("amount_usd"), gates.range("amount_usd", min=0)],
    )
    summary = Table(
        f"lake.{round_}.summary",
        partition=Day("order_date"),
        key=["order_date", "customer_id"],
        write=Overwrite(),
    )
    pipeline = Pipeline("bench", grain=Day)
    pipeline.step(reads={"deliveries": raw}, writes=facts)(shop.orders)
    query = shop.shop.steps["daily_customer_summary"].query or ""
    pipeline.sql("daily_customer_summary", reads={"orders": facts}, writes=summary, query=query)
    window_ = type(Day.unit("2026-01-01", pipeline.zone))
    window = window_(
        Day.parse(START.isoformat(), pipeline.zone),
        Day.parse((START + timedelta(days=count)).isoformat(), pipeline.zone),
    )
    result = execute(shared, pipeline, plan(pipeline, window))
    if result.error:
        raise result.error
    if os.environ.get("BENCH_VERBOSE"):
        print("   ", [(step.step, round(step.seconds, 1), step.rows) for step in result.steps], file=sys.stderr)


def by_hand(spark: SparkSession, round_: str, count: int, *, checked: bool) -> None:
    """Do the same in plain PySpark: read, transform, overwrite."""
    spark.sql(f"create namespace if not exists lake.{round_}")
    end = START + timedelta(days=count)
    deliveries = spark.table(RAW).where(
        (F.col("ingestion_date") >= F.lit(START))
        & (F.col("ingestion_date") < F.lit(end + timedelta(days=LATEST_ARRIVAL_DAYS)))
        & (F.col("ordered_at") >= F.lit(START.isoformat()).cast("timestamp"))
        & (F.col("ordered_at") < F.lit(end.isoformat()).cast("timestamp"))
    )
    _overwrite(spark, f"lake.{round_}.fct_orders", shop.orders(deliveries), end)
    facts = spark.table(f"lake.{round_}.fct_orders").where(
        (F.col("order_date") >= F.lit(START)) & (F.col("order_date") < F.lit(end))
    )
    facts.createOrReplaceTempView("orders")
    _overwrite(spark, f"lake.{round_}.summary", spark.sql(shop.shop.steps["daily_customer_summary"].query or ""), end)
    if checked:
        _assert_good(spark.table(f"lake.{round_}.fct_orders"), ["order_date", "order_id"])
        _assert_good(spark.table(f"lake.{round_}.summary"), ["order_date", "customer_id"])


def _overwrite(spark: SparkSession, name: str, rows: DataFrame, end: date) -> None:
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
    spark.sql(f"create table if not exists {name} ({columns}) using iceberg partitioned by (order_date)")
    rows.writeTo(name).overwrite((F.col("order_date") >= F.lit(START)) & (F.col("order_date") < F.lit(end)))


def _assert_good(rows: DataFrame, key: list[str]) -> None:
    if rows.count() == 0:
        raise AssertionError("no rows")
    if rows.groupBy(*key).count().where("count > 1").limit(1).collect():
        raise AssertionError("duplicate keys")


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=3_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "twice.toml"
        file.write_text(TOML)
        with runtime(configuration.load(file)) as shared:
            spark = shared.spark
            print(f"landing {options.orders:,} orders in {options.days} days …", file=sys.stderr)
            land(spark, options.days, options.orders)
            sides: dict[str, Callable[[str], None]] = {
                "twice": lambda name: by_twice(shared, name, options.days),
                "hand": lambda name: by_hand(spark, name, options.days, checked=False),
                "checked": lambda name: by_hand(spark, name, options.days, checked=True),
            }
            times: dict[str, list[float]] = {name: [] for name in sides}
            for round_ in range(options.rounds + 1):  # the first round warms up and does not count
                for name, side in sides.items():
                    started = time.monotonic()
                    side(f"{name}{round_}")
                    seconds = time.monotonic() - started
                    print(f"round {round_} {name:8} {seconds:6.2f} s", file=sys.stderr)
                    if round_:
                        times[name].append(seconds)
    middle = {name: statistics.median(seconds) for name, seconds in times.items()}
    print(
        json.dumps(
            {
                "bench": "overhead",
                "ratio": round(middle["twice"] / middle["hand"], 3),
                "ratio_checked": round(middle["twice"] / middle["checked"], 3),
                "twice_s": round(middle["twice"], 2),
                "hand_s": round(middle["hand"], 2),
                "checked_s": round(middle["checked"], 2),
                "orders": options.orders,
                "days": options.days,
            }
        )
    )


if __name__ == "__main__":
    main()
