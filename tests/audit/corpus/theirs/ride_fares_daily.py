"""Aggregates ride fares per zone and day.

spark-submit ride_fares_daily.py --input s3a://rides/raw --output s3a://rides/agg
"""
import argparse
import logging
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("ride_fares_daily")


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--input", required=True)
    p.add_argument("--output", required=True)
    p.add_argument("--shuffle-partitions", type=int, default=64)
    return p.parse_args()


def build_session(n):
    return (
        SparkSession.builder.appName("ride_fares_daily")
        .config("spark.sql.shuffle.partitions", n)
        .getOrCreate()
    )


def main():
    args = parse_args()
    started = datetime.now()
    spark = build_session(args.shuffle_partitions)

    yesterday = (datetime.now() - timedelta(days=1)).strftime("%Y-%m-%d")
    rides = spark.read.parquet(args.input).filter(F.col("pickup_date") == yesterday)
    log.info("reading rides of %s", yesterday)

    zones = spark.read.option("header", True).csv("s3a://rides/ref/zones.csv")
    agg = (
        rides.join(F.broadcast(zones), rides.pu_zone == zones.zone_id, "left")
        .groupBy("pickup_date", "borough", "zone_name")
        .agg(
            F.count("*").alias("trips"),
            F.sum("fare_amount").alias("fare_total"),
            F.avg("trip_distance").alias("avg_distance"),
        )
    )
    agg.write.mode("append").partitionBy("pickup_date").parquet(args.output)
    log.info("done in %s", datetime.now() - started)
    spark.stop()


if __name__ == "__main__":
    main()
