from pyspark.sql import SparkSession
from pyspark.sql.functions import *
from pyspark.sql.types import *

schema = StructType([
    StructField("device", StringType()),
    StructField("reading_id", StringType()),
    StructField("temp", DoubleType()),
    StructField("ts", TimestampType()),
])

spark = SparkSession.builder.appName("kafka-windows").getOrCreate()
spark.sparkContext.setLogLevel("WARN")

stream = spark.readStream.format("kafka") \
    .option("kafka.bootstrap.servers", "broker:9092") \
    .option("subscribe", "readings") \
    .load() \
    .select(from_json(col("value").cast("string"), schema).alias("v")).select("v.*")

alerts = spark.readStream.format("kafka") \
    .option("kafka.bootstrap.servers", "broker:9092") \
    .option("subscribe", "alerts") \
    .load() \
    .select(from_json(col("value").cast("string"), schema).alias("v")).select("v.*")

unique = stream.dropDuplicates(["reading_id"])

# match readings with alerts of the same device
matched = unique.alias("r").join(alerts.alias("a"), expr("r.device = a.device"))


def to_pg(df, epoch_id):
    df.write.format("jdbc") \
      .option("url", "jdbc:postgresql://pg/iot") \
      .option("dbtable", "alert_readings") \
      .mode("append").save()


q = matched.select("r.device", "r.reading_id", "a.ts").writeStream.foreachBatch(to_pg) \
    .option("checkpointLocation", "/chk/alert_readings").start()
q.awaitTermination()
