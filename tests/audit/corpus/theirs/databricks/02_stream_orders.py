# Databricks notebook source
from pyspark.sql import functions as F
from delta.tables import DeltaTable
import requests

checkpoint = "/mnt/chk/orders"

# COMMAND ----------

orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", dbutils.secrets.get("kafka", "servers"))
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
    .select(F.from_json(F.col("value").cast("string"), "order_id string, amount double, event_time timestamp").alias("o"))
    .select("o.*")
)

# COMMAND ----------

deduped = orders.dropDuplicates(["order_id"])

# COMMAND ----------


def write_batch(batch_df, batch_id):
    batch_df.write.format("delta").mode("append").saveAsTable("silver.orders")
    total = batch_df.agg(F.sum("amount")).first()[0]
    requests.post("https://hooks.internal.example/orders", json={"total": total}, timeout=10)


# COMMAND ----------

(
    deduped.writeStream.foreachBatch(write_batch)
    .option("checkpointLocation", checkpoint)
    .trigger(processingTime="1 minute")
    .start()
)
