"""Remove repeated deliveries with `row_number` over an order that has ties.

What breaks: two versions of an order that arrived on the same date are equal in this order, so which of
them becomes number one depends on how the rows are stored in the files. The same input gives another amount after
a compaction, on a bigger cluster or after a lost executor (S23), and it may be the older version (S13).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from examples.shop.generator import LATEST_ARRIVAL_DAYS
from examples.unsafe.session import arguments, create_like, open_session, raw_orders


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Replace the day with one delivery per order: the last one by ingestion date, or so it seems."""
    args = arguments(__doc__).parse_args(argv)
    spark = spark or open_session(args)
    newest_first = Window.partitionBy("order_id").orderBy(F.col("ingestion_date").desc())
    orders = (
        raw_orders(spark, args, args.date, args.date + timedelta(days=LATEST_ARRIVAL_DAYS))
        .withColumn("order_date", F.to_date("ordered_at"))
        .where(F.col("order_date") == F.lit(args.date))
        .withColumn("rn", F.row_number().over(newest_first))
        .where("rn = 1")
        .drop("rn", "delivery_no")
    )
    create_like(spark, args.table, orders, partition="order_date")
    orders.writeTo(args.table).overwritePartitions()
    return 0


if __name__ == "__main__":
    sys.exit(main())
