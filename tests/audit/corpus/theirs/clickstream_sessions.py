import sys
from pyspark.sql import SparkSession, Window
from pyspark.sql.functions import col, lag, sum as _sum, when, unix_timestamp, lit, md5, concat_ws, min as _min, max as _max, count

RUN_DATE = sys.argv[1]
SRC = "s3://acme-lake/bronze/clicks/"
DST = "s3://acme-lake/silver/sessions/"
GAP_SECONDS = 30 * 60

spark = SparkSession.builder.appName(f"sessions-{RUN_DATE}").getOrCreate()
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")

clicks = (
    spark.read.parquet(SRC)
    .where(col("event_date") == lit(RUN_DATE))
    .select("visitor_id", "event_ts", "event_id", "url", "event_date")
)

w = Window.partitionBy("visitor_id").orderBy("event_ts", "event_id")

marked = clicks.withColumn("prev_ts", lag("event_ts").over(w)).withColumn(
    "is_new",
    when(
        col("prev_ts").isNull()
        | (unix_timestamp("event_ts") - unix_timestamp("prev_ts") > GAP_SECONDS),
        1,
    ).otherwise(0),
)

numbered = marked.withColumn("session_no", _sum("is_new").over(w))

sessions = (
    numbered.groupBy("event_date", "visitor_id", "session_no")
    .agg(
        _min("event_ts").alias("session_start"),
        _max("event_ts").alias("session_end"),
        count("*").alias("page_views"),
    )
    .withColumn("session_key", md5(concat_ws("|", col("event_date"), col("visitor_id"), col("session_no"))))
)

sessions.show(20, truncate=False)
sessions.write.mode("overwrite").partitionBy("event_date").parquet(DST)
print("rows written:", sessions.count())
