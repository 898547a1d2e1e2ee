# bonus calculation, third version (mk)
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("bonus").enableHiveSupport().getOrCreate()

month = sys.argv[1]  # 2024-05
base = "hdfs:///hr/bonus"

sales = spark.table("sales.closed_deals").where(F.date_format("closed_on", "yyyy-MM") == month)
reps = spark.table("hr.sales_reps")

bonus = (
    sales.groupBy("rep_id")
    .agg(F.sum("margin").alias("margin"), F.count("*").alias("deals"))
    .join(reps, "rep_id")
    .withColumn("bonus", F.col("margin") * F.col("rate"))
    .withColumn("month", F.lit(month))
)

existing = spark.read.parquet(base)
combined = existing.unionByName(bonus.select(existing.columns))
combined.write.mode("overwrite").parquet(base)

# payout of the running balance
balances = spark.read.format("delta").load(base + "_balance")
spark.sql("""
    MERGE INTO hr.bonus_balance b
    USING (SELECT rep_id, sum(margin * 0.02) AS add_amount FROM sales.closed_deals GROUP BY rep_id) n
    ON b.rep_id = n.rep_id
    WHEN MATCHED THEN UPDATE SET b.amount = b.amount + n.add_amount
    WHEN NOT MATCHED THEN INSERT (rep_id, amount) VALUES (n.rep_id, n.add_amount)
""")

bonus.orderBy(F.desc("bonus")).show(50, truncate=False)
