"""Take a day's paid orders out of the warehouse, and mail the list.

What breaks, four times (S37): the adjustments are appended, so a rerun doubles them; they are numbered on from the
highest id, so a rerun gives the same adjustment another id; the stock is changed by `on_hand = on_hand - quantity`, so
a rerun takes everything out again; and the mail goes out with every run. `examples/shop/inventory.py` does it right.
"""

from __future__ import annotations

import os
import smtplib
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from email.message import EmailMessage

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from examples.shop.sizes import OPENING_STOCK, PRODUCTS
from examples.unsafe.session import arguments, create_like, open_session, orders_of


def main(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Append the adjustments, change the stock, send the mail."""
    parser = arguments(__doc__)
    parser.add_argument("--stock", required=True, metavar="FILE", help="the SQLite database with the table stock")
    args = parser.parse_args(argv)
    spark = spark or open_session(args)
    taken = (
        orders_of(spark, args, args.date)
        .where("status = 'paid'")
        .groupBy("order_date", (F.col("order_id") % PRODUCTS).alias("product"))
        .agg(F.count("*").alias("quantity"))
        .withColumn("adjustment_id", F.monotonically_increasing_id())
    )
    create_like(spark, args.table, taken, partition="order_date")
    highest = spark.table(args.table).agg(F.max("adjustment_id")).collect()[0][0]
    numbered = taken.withColumn("adjustment_id", F.col("adjustment_id") + F.lit((highest or 0) + 1))
    numbered.writeTo(args.table).append()
    rows = taken.collect()
    take_out(args.stock, rows)
    mail(str(args.date), rows)
    return 0


def take_out(file: str, rows: Sequence[Row]) -> None:
    """Lower the stock by what is to be packed."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS stock (product INTEGER PRIMARY KEY, on_hand INTEGER)")
        for row in rows:
            database.execute("INSERT OR IGNORE INTO stock VALUES (?, ?)", (row["product"], OPENING_STOCK))
            database.execute(
                "UPDATE stock SET on_hand = on_hand - ? WHERE product = ?", (row["quantity"], row["product"])
            )


def mail(day: str, rows: Sequence[Row]) -> None:
    """Notify the warehouse what to pack."""
    message = EmailMessage()
    message["From"], message["To"] = "shop@shop.example", "warehouse@shop.example"
    message["Subject"] = f"To pack for {day}"
    message.set_content("\n".join(f"product {row['product']}: {row['quantity']}" for row in rows))
    host, _, port = os.environ.get("SHOP_MAIL", "localhost:25").partition(":")
    with smtplib.SMTP(host, int(port or 25)) as server:
        server.send_message(message)


if __name__ == "__main__":
    sys.exit(main())
