#!/usr/bin/env python
# coding: utf-8
"""POS loader

reads the tickets of all stores for one day and loads fact + dimension tables in postgres
"""

import os
import sys
import time
import configparser
import traceback
import smtplib
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, to_date, sum as sum_, lit, concat, date_format, current_timestamp
from pyspark.sql.utils import AnalysisException

config = configparser.ConfigParser()
config.read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pos.ini"))

PG_URL = config.get("postgres", "url", fallback="jdbc:postgresql://localhost/pos")
PG = {
    "user": config.get("postgres", "user", fallback="pos"),
    "password": os.environ.get("POS_PASSWORD", ""),
    "driver": "org.postgresql.Driver",
}


def alert(text):
    """mail to the admins when the job breaks"""
    s = smtplib.SMTP("localhost")
    s.sendmail("pos@acme.example", ["admin@acme.example"], "Subject: POS load failed\n\n" + text)
    s.quit()


def get_day():
    if len(sys.argv) > 1:
        return sys.argv[1]
    # default: yesterday
    return (datetime.now() - timedelta(days=1)).strftime("%Y-%m-%d")


def to_postgres(df, table, mode="append"):
    start = time.time()
    df.write.jdbc(url=PG_URL, table=table, mode=mode, properties=PG)
    print("%s written in %.1f s" % (table, time.time() - start))


def load_dim_store(spark):
    stores = spark.read.option("header", "true").csv("/data/pos/ref/stores.csv")
    to_postgres(stores, "dim_store", mode="overwrite")


def load_fact(spark, day):
    tickets = spark.read.json("/data/pos/%s/*/tickets.json" % day)
    lines = (
        tickets.filter(col("state") == "PAID")
        .withColumn("ticket_key", concat(col("store_no"), col("till_no"), col("ticket_no")))
        .withColumn("sales_day", to_date(col("closed_at")))
        .withColumn("load_ts", current_timestamp())
    )
    to_postgres(lines, "fact_ticket")
    daily = lines.groupBy("store_no", "sales_day").agg(sum_("total").alias("total"))
    return daily


def load_daily(spark, daily, day):
    try:
        old = spark.read.jdbc(PG_URL, "daily_sales", properties=PG)
        print("rows before:", old.count())
    except AnalysisException:
        print("table does not exist yet")
    to_postgres(daily, "daily_sales")


def main():
    day = get_day()
    print("loading", day, "at", datetime.now())
    spark = SparkSession.builder.appName("pos_loader_" + day).getOrCreate()
    try:
        load_dim_store(spark)
        daily = load_fact(spark, day)
        load_daily(spark, daily, day)
    except Exception:
        alert(traceback.format_exc())
        raise
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
