"""Append the shop's clicks to a table, one micro-batch after the other.

What breaks: Structured Streaming delivers a batch at least once. When the process dies after the append and before
Spark has written its commit marker, the next start delivers the same batch again, and all its clicks are in the table
twice (S39). A click that the web servers deliver twice is in the table twice anyway (S38). `examples/shop/clicks.py`
does it right.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.shop.click_feed import SCHEMA
from examples.unsafe.session import arguments, create_like, open_session


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Append what was delivered since the last run."""
    parser = arguments(__doc__, needs_date=False)
    parser.add_argument("--landing", required=True, metavar="FOLDER", help="the folder with the delivered files")
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER", help="where Spark remembers what it has read")
    args = parser.parse_args(argv)
    spark = spark or open_session(args)
    delivered = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(args.landing)
    clicks = delivered.withColumn("click_date", F.to_date("happened_at"))
    create_like(spark, args.table, spark.createDataFrame([], clicks.schema), partition="click_date")

    def append(batch: DataFrame, _batch_id: int) -> None:
        batch.writeTo(args.table).append()

    query = clicks.writeStream.foreachBatch(append).option("checkpointLocation", args.checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
