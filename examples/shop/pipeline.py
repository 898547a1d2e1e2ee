"""The reference pipeline: two raw feeds, a fact, a dimension and two marts; every day safe to run twice.

One mart is served to an application from its own database: SQLite here, Postgres by changing the URL. Where there is
a chat channel, the day's revenue is posted to it, once.

export SHOP_CHAT_URL=http://127.0.0.1:8500      # python -m examples.chat --port 8500
twice run shop --for 2026-04-25
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.shop.generator import STATUSES, customers_feed, orders_feed
from examples.shop.sizes import CUSTOMERS, OPENING, ORDERS_PER_DAY
from twice import Day, Merge, Overwrite, Pipeline, Table, Window, days, gates, key_of
from twice.effects import Webhook, http_contains

shop = Pipeline("shop", grain=Day)

raw_orders = Table(
    "lake.raw.orders",
    description="Orders exactly as delivered: late, repeated and corrected.",
    partition=Day("ingestion_date"),
    event_time="ordered_at",
    key=["ingestion_date", "delivery_no"],
    write=Overwrite(),
    gates=[gates.row_count(min=1), gates.not_null("order_id")],
)
raw_customers = Table(
    "lake.raw.customers",
    description="Customer versions as delivered: new and changed ones, sometimes two versions in a day.",
    partition=Day("ingestion_date"),
    key=["customer_id", "updated_at"],
    write=Overwrite(),
    schema="customer_id BIGINT, email STRING, region STRING, updated_at TIMESTAMP, ingestion_date DATE",
    personal=["email"],
)
fct_orders = Table(
    "lake.core.fct_orders",
    description="One row per order, in its newest version.",
    partition=Day("order_date"),
    key=["order_id"],
    write=Overwrite(),
    lateness=days(3),
    gates=[
        gates.row_count(min=1),
        gates.not_null("amount_usd"),
        gates.range("amount_usd", min=0),
        gates.accepted("status", STATUSES),
    ],
)
dim_customer = Table(
    "lake.core.dim_customer",
    description="One row per customer, as known today.",
    key=["customer_id"],
    write=Merge(version="updated_at"),
    personal=["email"],
    mutable=["email"],
)
revenue_daily = Table(
    "lake.mart.revenue_daily",
    description="Revenue by day and region, without cancelled orders.",
    partition=Day("order_date"),
    key=["order_date", "region"],
    write=Overwrite(),
    gates=[gates.range("revenue_usd", min=0), gates.unique("revenue_sk")],
)
daily_customer_summary = Table(
    "serving.main.daily_customer_summary",
    description="What each customer ordered on a day, without cancelled orders, for the application's database.",
    partition=Day("order_date"),
    key=["order_date", "customer_id"],
    write=Overwrite(),
)


@shop.extract(writes=raw_orders)
def raw_orders_feed(window: Window, spark: SparkSession) -> DataFrame:
    """Land what the order system delivered."""
    feeds = [orders_feed(spark, day, ORDERS_PER_DAY, customers=CUSTOMERS) for day in _dates(window)]
    return reduce(lambda one, other: one.unionByName(other), feeds)


@shop.extract(writes=raw_customers)
def raw_customers_feed(window: Window) -> Iterable[Mapping[str, object]]:
    """Land what the customer system delivered."""
    for day in _dates(window):
        yield from customers_feed(day, CUSTOMERS, opening=OPENING)


@shop.step(reads={"deliveries": raw_orders}, writes=fct_orders)
def orders(deliveries: DataFrame) -> DataFrame:
    """Keep the newest version of each order; the greatest struct is the same one in any row order."""
    newest = F.max(F.struct("updated_at", "ordered_at", "customer_id", "status", "amount_usd"))
    return (
        deliveries.withColumn("order_date", F.to_date("ordered_at"))
        .groupBy("order_date", "order_id")
        .agg(newest.alias("newest"))
        .select("order_date", "order_id", "newest.*")
    )


@shop.step(reads={"versions": raw_customers}, writes=dim_customer)
def customers(versions: DataFrame) -> DataFrame:
    """Hand all versions to the merge, which lets the newest one win, also over what the table holds."""
    return versions.select("customer_id", "email", "region", "updated_at")


@shop.step(reads={"orders": fct_orders, "customers": dim_customer.latest()}, writes=revenue_daily)
def revenue(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Add up what was earned, by the region where each customer lives now."""
    return (
        orders.where("status <> 'cancelled'")
        .join(customers.select("customer_id", "region"), "customer_id", "left")
        .withColumn("region", F.coalesce("region", F.lit("unknown")))
        .groupBy("order_date", "region")
        .agg(F.count("*").alias("orders"), F.sum("amount_usd").alias("revenue_usd"))
        .withColumn("revenue_sk", key_of("order_date", "region"))
    )


shop.sql(
    "daily_customer_summary",
    reads={"orders": fct_orders},
    writes=daily_customer_summary,
    query="""
        SELECT order_date, customer_id, COUNT(*) AS orders, SUM(amount_usd) AS amount_usd
        FROM orders
        WHERE status <> 'cancelled'
        GROUP BY order_date, customer_id
    """,
)


if chat := os.environ.get("SHOP_CHAT_URL"):
    # A webhook knows no idempotency keys: after a crash the channel is asked whether it has the message.
    @shop.effect(
        after=revenue_daily,
        to=Webhook(f"{chat}/hook", marker="ref {key}"),
        on_unknown=http_contains(f"{chat}/history"),
    )
    def post_revenue(rows: DataFrame, window: Window) -> str:
        """Post what the day earned."""
        earned = rows.agg(F.sum("revenue_usd")).first()
        return f"Revenue of {window.start:%Y-%m-%d}: {earned[0] if earned and earned[0] else 0:,.2f} USD"


def _dates(window: Window) -> Iterator[date]:
    return ((window.start + timedelta(days=n)).date() for n in range((window.end - window.start).days))
