import argparse
from datetime import date

from pyspark.sql import SparkSession
import pyspark.sql.functions as f

# IoT roll-up, author: pk

parser = argparse.ArgumentParser(description="15 minute rollup of sensor values")
parser.add_argument("--day", default=date.today().isoformat(), help="day to compute (default: today)")
parser.add_argument("--site", default="all")
opts = parser.parse_args()

spark = SparkSession.builder.appName("sensor-rollup").getOrCreate()

readings = spark.table("iot.readings").filter(f.col("reading_day") == opts.day)
if opts.site != "all":
    readings = readings.filter(f.col("site") == opts.site)

bucket = f.window("reading_ts", "15 minutes")

rollup = (
    readings.groupBy("reading_day", "site", "device_id", bucket)
    .agg(
        f.avg("value").alias("avg_value"),
        f.first("unit").alias("unit"),
        f.collect_list("status").alias("statuses"),
        f.count(f.lit(1)).alias("n"),
    )
    .withColumn("slot", f.col("window.start"))
    .drop("window")
)

# whole table is replaced
rollup.write.mode("overwrite").format("parquet").saveAsTable("iot.rollup_15m")
