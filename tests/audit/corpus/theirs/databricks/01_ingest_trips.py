# Databricks notebook source
# MAGIC %md
# MAGIC # Ingest trips
# MAGIC Appends the files with current_timestamp(); see `df.write.mode("append")` below.

# COMMAND ----------

dbutils.widgets.text("run_date", "")
run_date = dbutils.widgets.get("run_date")
if not run_date:
    from datetime import datetime
    run_date = datetime.now().strftime("%Y-%m-%d")

# COMMAND ----------

from pyspark.sql.functions import *

df = (spark.read
      .format("csv")
      .option("header", True)
      .load(f"/mnt/raw/trips/{run_date}/"))

df = df.withColumn("ingest_ts", current_timestamp()).withColumn("run_date", lit(run_date))

# COMMAND ----------

display(df.limit(100))

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE TABLE bronze.trips (
# MAGIC   trip_id STRING, vendor STRING, pickup TIMESTAMP, fare DOUBLE, ingest_ts TIMESTAMP, run_date STRING
# MAGIC ) USING DELTA PARTITIONED BY (run_date)

# COMMAND ----------

df.write.format("delta").mode("append").saveAsTable("bronze.trips")

# COMMAND ----------

# MAGIC %sql
# MAGIC OPTIMIZE bronze.trips ZORDER BY (trip_id)

# COMMAND ----------

dbutils.notebook.exit("ok")
