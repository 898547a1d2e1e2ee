"""Load "yesterday", as the clock of the machine understands it.

What breaks: the result depends on when the job runs, not on the day it was asked for (S19). A rerun of an
old day rebuilds another day and leaves the wanted one as it was; the same job started before and after
midnight, or in two time zones, gives two answers; `loaded_at` differs in every run, so that no two runs can
be compared. And it chooses by arrival: the order of 23:59 that arrives at 00:03 lands in the wrong day (S20).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.unsafe.session import arguments, create_like, open_session, raw_orders


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Load what arrived yesterday; the date that the scheduler asks for is ignored."""
    args = arguments(__doc__, needs_date=False).parse_args(argv)
    spark = spark or open_session(args)
    today = datetime.now(timezone.utc).date()
    around = today - timedelta(days=3), today + timedelta(days=1)
    orders = (
        raw_orders(spark, args, *around)
        .where(F.col("ingestion_date") == F.date_sub(F.current_date(), 1))
        .withColumn("order_date", F.col("ingestion_date"))
        .withColumn("loaded_at", F.lit(datetime.now(timezone.utc)))
    )
    create_like(spark, args.table, orders, partition="order_date")
    orders.writeTo(args.table).overwritePartitions()
    return 0


if __name__ == "__main__":
    sys.exit(main())
