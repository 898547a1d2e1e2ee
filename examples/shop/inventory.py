"""Inventory: what each day takes out of the warehouse, what is left, and a mail to those who pack it.

Every day is replaced by what its orders give, ids are hashes of what they identify, the stock is added up from all
adjustments, and the mail about a day goes out once. When an older day is corrected, the stock is stale until the newest
day is run again. `examples/unsafe/inventory.py` does the same in the usual way.

export SHOP_MAIL=localhost:25                   # a mail server; without it no mail is sent
export SHOP_MAIL_SENT=/var/mail/shop-sent       # a mbox or Maildir with a copy of every mail
twice run inventory --for 2026-04-25
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.shop.pipeline import fct_orders
from examples.shop.sizes import OPENING_STOCK, PRODUCTS
from twice import Day, Overwrite, Pipeline, Table, Whole, Window, gates, key_of
from twice.effects import Smtp, sent_mail

inventory = Pipeline("inventory", grain=Day)

stock_adjustments = Table(
    "lake.core.stock_adjustments",
    description="What the orders of a day took out of the warehouse, by product.",
    partition=Day("order_date"),
    key=["adjustment_id"],
    write=Overwrite(),
    gates=[gates.range("quantity", min=1)],
)
stock = Table(
    "serving.main.stock",
    description="What is left of each product, added up from all adjustments.",
    key=["product"],
    write=Whole(),
)


@inventory.step(reads={"orders": fct_orders}, writes=stock_adjustments)
def adjustments(orders: DataFrame) -> DataFrame:
    """Count what is to be packed, by product; the id is a hash of day and product."""
    return (
        orders.where("status = 'paid'")
        .withColumn("product", F.col("order_id") % PRODUCTS)
        .groupBy("order_date", "product")
        .agg(F.count("*").alias("quantity"))
        .withColumn("adjustment_id", key_of("order_date", "product"))
    )


@inventory.step(reads={"taken": stock_adjustments.latest()}, writes=stock)
def stock_of_all_days(taken: DataFrame) -> DataFrame:
    """Add up all adjustments: nothing depends on how often a day was run."""
    return taken.groupBy("product").agg((F.lit(OPENING_STOCK) - F.sum("quantity")).alias("on_hand"))


if server := os.environ.get("SHOP_MAIL"):
    host, _, port = server.partition(":")
    copies = os.environ.get("SHOP_MAIL_SENT")

    @inventory.effect(
        after=stock_adjustments,
        to=Smtp(host, "shop@shop.example", port=int(port or 25)),
        on_unknown=sent_mail(copies) if copies else "ask",
    )
    def mail_warehouse(rows: DataFrame, window: Window) -> dict[str, str]:
        """Notify the warehouse what to pack."""
        lines = [f"product {row.product}: {row.quantity}" for row in rows.orderBy("product").collect()]
        return {
            "to": "warehouse@shop.example",
            "subject": f"To pack for {window.start:%Y-%m-%d}",
            "text": "\n".join(lines) or "nothing",
        }
