"""The wide tables of bench/peers.py: late corrections of their input, and what they hold."""

from __future__ import annotations

from datetime import date

import backfill
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def correct(spark: SparkSession, raw: str, first: date, last: date, version: int) -> None:
    """Deliver some orders of some days once more, with another amount and a version that has not been there."""
    spark.sql(
        f"insert into {raw} select order_id, order_date, customer_id, amount + {version}, {version} from {raw} "
        f"where order_date between date '{first}' and date '{last}' and version = 1 and order_id % 10 = 0"
    )


def content(spark: SparkSession, raw: str, space: str = "") -> dict[str, tuple[object, ...]]:
    """Return what each day of the two tables holds: rows and sums. Without a namespace, what they ought to hold."""
    facts = spark.table(f"lake.{space}.facts") if space else backfill.facts_of(spark.table(raw))
    summary = spark.table(f"lake.{space}.summary") if space else backfill.summary_of(facts)
    keys = "cast(sum(cast(xxhash64(order_key, customer_id) as decimal(38, 0))) as string)"
    found: dict[str, tuple[object, ...]] = {}
    for name, rows, more in (("facts", facts, keys), ("summary", summary, "sum(orders)")):
        sums = rows.groupBy("order_date").agg(F.count("*"), F.sum("amount"), F.expr(more)).collect()
        found |= {f"{name} {row[0]}": tuple(row)[1:] for row in sums}
    return found
