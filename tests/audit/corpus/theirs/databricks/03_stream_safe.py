# Databricks notebook source
# MAGIC %md
# MAGIC ## Exactly-once streams
# MAGIC The raw copy relies on the checkpointed Delta sink; the second sink uses transaction tokens.

# COMMAND ----------

from pyspark.sql import functions as F

APP = "telemetry-silver-v3"
CHK = "/Volumes/ops/checkpoints/telemetry"

raw = (
    spark.readStream.format("cloudFiles")
    .option("cloudFiles.format", "json")
    .option("cloudFiles.schemaLocation", CHK + "/schema")
    .load("/Volumes/landing/telemetry")
)

# COMMAND ----------

(
    raw.writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", CHK + "/bronze")
    .toTable("bronze.telemetry")
)

# COMMAND ----------


def to_silver(batch, batch_id):
    clean = batch.filter("device_id is not null and value is not null")
    (
        clean.write.format("delta")
        .option("txnAppId", APP)
        .option("txnVersion", batch_id)
        .mode("append")
        .saveAsTable("silver.telemetry")
    )


bounded = (
    spark.readStream.table("bronze.telemetry")
    .withWatermark("event_time", "2 hours")
    .dropDuplicatesWithinWatermark(["device_id", "seq_no"])
)

# COMMAND ----------

(
    bounded.writeStream.foreachBatch(to_silver)
    .option("checkpointLocation", CHK + "/silver")
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
