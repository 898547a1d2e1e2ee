import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lib.io import read_day, replace_day, save

DAY = sys.argv[1]

spark = SparkSession.builder.appName("refunds").getOrCreate()

orders = read_day(spark, "shop.orders", DAY)
refunds = read_day(spark, "shop.refunds", DAY)

per_order = refunds.groupBy("order_id", "ds").agg(
    F.sum("amount").alias("refund_amount"),
    F.max("reason_code").alias("worst_reason"),
)

enriched = (
    orders.select("order_id", "customer_id", "ds", "total")
    .join(per_order, ["order_id", "ds"], "inner")
    .withColumn("refund_share", F.col("refund_amount") / F.col("total"))
)

print("refunds of", DAY)
enriched.orderBy(F.desc("refund_amount")).limit(10).show(truncate=False)

replace_day(enriched, "shop.refunds_enriched", DAY)

summary = enriched.groupBy("ds").agg(F.sum("refund_amount").alias("refunded"), F.count("*").alias("orders"))
save(summary, "shop.refund_summary")
