"""What the unsafe scripts share: their arguments, their Spark session and their input.

Run a script from the repository root, for instance

    python -m examples.unsafe.append lake.core.orders --date 2026-04-25 --conf spark.master=local[2]

The Spark settings come from `--conf key=value` (repeatable), or from `UNSAFE_WAREHOUSE=/some/folder`, which
stands for an Iceberg catalog named `lake` in that folder. With `spark-submit` neither is needed.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from datetime import date, timedelta
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from examples.shop.generator import LATEST_ARRIVAL_DAYS, customers_feed, orders_feed
from examples.shop.sizes import CUSTOMERS, OPENING, ORDERS_PER_DAY

_CUSTOMER = "customer_id BIGINT, email STRING, region STRING, updated_at TIMESTAMP, ingestion_date DATE"


def arguments(description: str | None, *, needs_date: bool = True) -> ArgumentParser:
    """Return a parser for what every script takes; a script may add its own options."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("table", help="the Iceberg table to write, such as lake.core.orders")
    parser.add_argument("--date", type=date.fromisoformat, required=needs_date, help="the business date")
    parser.add_argument("--input", help="a table or view with the raw deliveries; generated when left out")
    parser.add_argument("--orders", type=int, default=ORDERS_PER_DAY, help="generated orders per day")
    parser.add_argument("--customers", type=int, default=CUSTOMERS, help="generated customers")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting")
    return parser


def open_session(args: Namespace) -> SparkSession:
    """Start Spark with the given settings."""
    builder = SparkSession.builder.appName("unsafe")
    settings = [*_warehouse_settings(os.environ.get("UNSAFE_WAREHOUSE")), *args.conf]
    for key, _, value in (setting.partition("=") for setting in settings):
        builder = builder.config(key, value)
    return builder.getOrCreate()


def raw_orders(spark: SparkSession, args: Namespace, first: date, last: date) -> DataFrame:
    """Return what the order system delivered on the ingestion dates from `first` to `last`."""
    if args.input:
        return spark.table(args.input).where(F.col("ingestion_date").between(F.lit(first), F.lit(last)))
    dates = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    feeds = (orders_feed(spark, day, args.orders, customers=args.customers) for day in dates)
    return reduce(DataFrame.unionByName, feeds)


def orders_of(spark: SparkSession, args: Namespace, day: date) -> DataFrame:
    """Return a date's orders, each once, in its newest version: right, so that only the write is wrong."""
    deliveries = raw_orders(spark, args, day, day + timedelta(days=LATEST_ARRIVAL_DAYS))
    newest = F.max(F.struct("updated_at", "ordered_at", "customer_id", "status", "amount_usd"))
    return (
        deliveries.withColumn("order_date", F.to_date("ordered_at"))
        .where(F.col("order_date") == F.lit(day))
        .groupBy("order_date", "order_id")
        .agg(newest.alias("newest"))
        .select("order_date", "order_id", "newest.*")
    )


def raw_customers(spark: SparkSession, args: Namespace, day: date) -> DataFrame:
    """Return the customer rows that were delivered on a date."""
    if args.input:
        return spark.table(args.input).where(F.col("ingestion_date") == F.lit(day))
    rows = [Row(**row) for row in customers_feed(day, args.customers, opening=OPENING)]
    return spark.createDataFrame(rows, _CUSTOMER)


def create_like(spark: SparkSession, table: str, rows: DataFrame, *, partition: str | None = None) -> None:
    """Create the table with the columns of `rows` if it does not exist."""
    if spark.catalog.tableExists(table):
        return
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
    writer = rows.limit(0).writeTo(table).using("iceberg")
    (writer.partitionedBy(F.col(partition)) if partition else writer).create()


def _warehouse_settings(folder: str | None) -> list[str]:
    if not folder:
        return []
    catalog = "spark.sql.catalog.lake"
    return [
        "spark.sql.session.timeZone=UTC",
        "spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"{catalog}=org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type=jdbc",
        f"{catalog}.uri=jdbc:sqlite:{Path(folder).absolute() / 'catalog.db'}",
        f"{catalog}.warehouse={Path(folder).absolute() / 'warehouse'}",
        f"{catalog}.jdbc.schema-version=V1",
        f"{catalog}.cache-enabled=false",
    ]
