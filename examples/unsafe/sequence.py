"""Give each order of a day the next free number as its key.

What breaks: the number depends on what the table already holds and on how Spark cut the rows. The rerun of
a day replaces its rows, but each order now has another `order_sk`, and everything that stored the first one
points to nothing, or, worse, to another order (S16, S23). A backfill in another order numbers them otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.unsafe.session import arguments, create_like, open_session, orders_of


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Replace the day, numbered on from the highest key in the table."""
    args = arguments(__doc__).parse_args(argv)
    spark = spark or open_session(args)
    orders = orders_of(spark, args, args.date).withColumn("order_sk", F.monotonically_increasing_id())
    create_like(spark, args.table, orders, partition="order_date")
    highest = spark.table(args.table).agg(F.max("order_sk")).collect()[0][0]
    numbered = orders.withColumn("order_sk", F.col("order_sk") + F.lit((highest or 0) + 1))
    numbered.writeTo(args.table).overwritePartitions()
    return 0


if __name__ == "__main__":
    sys.exit(main())
