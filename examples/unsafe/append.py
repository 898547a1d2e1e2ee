"""Load a day's orders by appending them.

What breaks: every run adds its rows to those that are there. Run twice, the day is doubled (S02); fail
partway and retry, and the first rows are in the table twice (S01: 180,000 + 250,000 rows); three tries make 700
rows of 300 (S03). Readers see each half state.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from examples.unsafe.session import arguments, create_like, open_session, orders_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Append the day; with `--fail-after-rows N` only its first N rows, and then fail."""
    parser = arguments(__doc__)
    parser.add_argument("--fail-after-rows", type=int, metavar="N", help="stop with an error after N rows")
    args = parser.parse_args(argv)
    spark = spark or open_session(args)
    orders = orders_of(spark, args, args.date)
    create_like(spark, args.table, orders, partition="order_date")
    if args.fail_after_rows is not None:
        orders.orderBy("order_id").limit(args.fail_after_rows).writeTo(args.table).append()
        print(f"failed after {args.fail_after_rows} rows of {args.date}", file=sys.stderr)
        return 1
    orders.writeTo(args.table).append()
    return 0


if __name__ == "__main__":
    sys.exit(main())
