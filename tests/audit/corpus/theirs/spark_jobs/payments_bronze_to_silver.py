from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, current_timestamp, to_date, input_file_name
import sys

spark = SparkSession.builder.getOrCreate()

bronze_path = sys.argv[1]
silver_table = "silver.payments"

df = (
    spark.read.format("json")
    .option("multiline", "false")
    .load(bronze_path)
    .withColumn("source_file", input_file_name())
    .withColumn("payment_date", to_date("created_at"))
    .withColumn("_ingested_at", current_timestamp())
)

df = df.filter(col("amount").isNotNull()).filter(col("currency").isin("EUR", "USD", "GBP"))

if not spark.catalog.tableExists(silver_table):
    df.limit(0).write.format("delta").partitionBy("payment_date").saveAsTable(silver_table)

target = DeltaTable.forName(spark, silver_table)

# upsert, the feed sends every state change of a payment as its own row
(
    target.alias("t")
    .merge(df.alias("s"), "t.payment_id = s.payment_id")
    .whenMatchedUpdateAll()
    .whenNotMatchedInsertAll()
    .execute()
)

history = target.history(1).select("operationMetrics").collect()[0][0]
print("inserted", history.get("numTargetRowsInserted"), "updated", history.get("numTargetRowsUpdated"))
