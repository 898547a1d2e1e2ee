"""Merge a date's customers on their id, without looking at which version is newer.

What breaks: whatever is merged last wins. Monday's file after Tuesday's, as in any rerun or backfill, brings
Monday's e-mail addresses and regions back (S14). Two rows for a customer who is not in the table yet are both
inserted; for one who is, the merge fails (S13). `--drop-duplicates` is what people add then: it keeps the row
that Spark happens to see first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from examples.unsafe.session import arguments, create_like, open_session, raw_customers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Upsert the customers that were delivered on the date."""
    parser = arguments(__doc__)
    parser.add_argument("--drop-duplicates", action="store_true", help="keep any one row per customer")
    args = parser.parse_args(argv)
    spark = spark or open_session(args)
    customers = raw_customers(spark, args, args.date).drop("ingestion_date")
    if args.drop_duplicates:
        customers = customers.dropDuplicates(["customer_id"])
    create_like(spark, args.table, customers)
    customers.createOrReplaceTempView("delivered_customers")
    spark.sql(f"""
        MERGE INTO {args.table} AS known USING delivered_customers AS delivered
        ON known.customer_id = delivered.customer_id
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """)
    return 0


if __name__ == "__main__":
    sys.exit(main())
