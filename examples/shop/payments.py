"""Payments: fetched from the provider's API for a window, then joined to the shop's orders and customers.

export PAYMENTS_API_URL=http://127.0.0.1:8400   # python -m examples.payments_api --port 8400
twice run payments --for 2026-04-25
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.shop.payments_client import ChargeCards, PaymentsClient
from examples.shop.pipeline import dim_customer, fct_orders
from twice import Day, Overwrite, Pipeline, Table, Window, days, gates, hours
from twice.effects import Retry

payments = Pipeline("payments", grain=Day)

raw_payments = Table(
    "lake.raw.payments",
    description="Charges as the provider reports them, by the day on which they were made.",
    partition=Day("charged_on"),
    key=["charge_id"],
    write=Overwrite(),
    schema="charge_id STRING, order_id BIGINT, customer STRING, status STRING, cents BIGINT, "
    "refunded_cents BIGINT, currency STRING, charged_at TIMESTAMP, charged_on DATE",
    gates=[gates.accepted("status", ["succeeded", "failed", "pending"]), gates.range("cents", min=1)],
)
fct_payments = Table(
    "lake.core.fct_payments",
    description="One row per successful charge, with what is known of its order and its customer.",
    partition=Day("charged_on"),
    key=["charge_id"],
    write=Overwrite(),
    gates=[gates.range("net_usd", min=0)],
)
unpaid_orders = Table(
    "lake.mart.unpaid_orders",
    description="Orders whose card was declined the day before, and which no charge has paid since.",
    partition=Day("found_on"),
    key=["order_id"],
    write=Overwrite(),
)


@payments.extract(writes=raw_payments)
def raw_payments_feed(window: Window) -> Iterator[Mapping[str, object]]:
    """Fetch the charges of the window; the provider filters by the time at which they were made."""
    # The address is read when the step runs: where the provider is does not make a day stale.
    provider = PaymentsClient.from_environment()
    for charge in provider.charges(window.start, window.end):
        charged_at = datetime.fromtimestamp(charge["created"], timezone.utc)
        order = charge["metadata"].get("order_id")
        yield {
            "charge_id": charge["id"],
            "order_id": int(order) if order else None,
            "customer": charge["customer"],
            "status": charge["status"],
            "cents": charge["amount"],
            "refunded_cents": charge["amount_refunded"],
            "currency": charge["currency"],
            "charged_at": charged_at,
            "charged_on": charged_at.date(),
        }


@payments.step(
    reads={
        "charges": raw_payments,
        "orders": fct_orders.window(lookback=days(1)),  # what is ordered before midnight may be paid after it
        "customers": dim_customer.latest(),
    },
    writes=fct_payments,
)
def payments_of_orders(charges: DataFrame, orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Keep what was paid; an order that is not here yet leaves its columns empty until the day is run again."""
    dollars = (F.col("cents") - F.col("refunded_cents")).cast("decimal(14,0)") / 100
    return (
        charges.where("status = 'succeeded'")
        .join(
            orders.select("order_id", "order_date", "customer_id", F.col("status").alias("order_status")),
            "order_id",
            "left",
        )
        .join(customers.select("customer_id", "region"), "customer_id", "left")
        .select(
            "charged_on",
            "charge_id",
            "charged_at",
            "order_id",
            "order_date",
            "order_status",
            "customer_id",
            "region",
            (F.col("cents").cast("decimal(14,0)") / 100).cast("decimal(14,2)").alias("paid_usd"),
            dollars.cast("decimal(14,2)").alias("net_usd"),
        )
    )


@payments.step(
    reads={"charges": raw_payments.window(lookback=days(1)), "orders": fct_orders.window(lookback=days(2))},
    writes=unpaid_orders,
)
def orders_without_payment(charges: DataFrame, orders: DataFrame, window: Window) -> DataFrame:
    """Keep yesterday's declined orders that are neither paid since nor cancelled: a second try may follow midnight."""
    last = F.max(F.when(F.col("status") == "failed", F.struct("charged_on", "customer", "cents", "currency")))
    start, end = (F.lit(moment.date()) for moment in (window.start, window.end))
    return (
        charges.where("order_id IS NOT NULL")
        .groupBy("order_id")
        .agg(last.alias("last"), F.bool_or(F.col("status") == "succeeded").alias("paid"))
        .where("NOT paid")
        .join(orders.where("status <> 'cancelled'").select("order_id"), "order_id", "left_semi")
        .withColumn("found_on", F.date_add("last.charged_on", 1))
        .select("found_on", "order_id", "last.customer", "last.cents", "last.currency")
        .where((F.col("found_on") >= start) & (F.col("found_on") < end))
    )


@payments.effect(
    after=unpaid_orders,
    key="order_id",
    to=ChargeCards(),
    on_unknown=Retry(valid_for=hours(24), then="ask"),  # as long as the provider remembers keys
    on_change="fail",
    rate="20/s",
)
def charge_again(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Charge an order once more, once, whichever day it is found on."""
    (order,) = rows
    return {name: order[name] for name in ("customer", "cents", "currency")} | {"order": order["order_id"]}
