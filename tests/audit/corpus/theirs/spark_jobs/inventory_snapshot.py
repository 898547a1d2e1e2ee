#!/usr/bin/env python3
"""Full rebuild of the inventory snapshot from the event log: every run writes the same table."""
from __future__ import annotations

import logging
import os
import time

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

logger = logging.getLogger(__name__)

EVENTS = "lake.inventory_events"
SNAPSHOT = "lake.inventory_snapshot"


def latest_per_sku(events: DataFrame) -> DataFrame:
    """Keep the newest event per sku; event_id breaks ties."""
    order = Window.partitionBy("warehouse_id", "sku").orderBy(F.col("event_ts").desc(), F.col("event_id").desc())
    return events.withColumn("rn", F.row_number().over(order)).filter("rn = 1").drop("rn")


def on_hand(events: DataFrame) -> DataFrame:
    return events.groupBy("warehouse_id", "sku").agg(F.sum("delta").alias("on_hand"))


def run(spark: SparkSession) -> None:
    t0 = time.time()
    events = spark.table(EVENTS).dropDuplicates()
    latest = latest_per_sku(events).select("warehouse_id", "sku", "bin", "unit_cost")
    stock = on_hand(events)
    result = stock.join(latest, ["warehouse_id", "sku"], "left")
    total = result.agg(F.sum("on_hand")).first()[0]
    logger.info("total units on hand: %s", total)
    result.repartition(8).write.format("delta").mode("overwrite").saveAsTable(SNAPSHOT)
    logger.info("took %.1fs", time.time() - t0)


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "INFO"))
    run(SparkSession.builder.appName("inventory_snapshot").getOrCreate())
