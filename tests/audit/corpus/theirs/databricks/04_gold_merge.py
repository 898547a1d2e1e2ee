# Databricks notebook source
dbutils.widgets.text("day", "2024-01-01")
day = dbutils.widgets.get("day")

# COMMAND ----------

from pyspark.sql import Window
import pyspark.sql.functions as F

of_day = spark.table("silver.policy_changes").filter(F.col("change_date") == day)
w = Window.partitionBy("policy_no").orderBy(F.desc("change_date"))
changes = (
    of_day.withColumn("rn", F.row_number().over(w))
    .filter("rn = 1")
    .drop("rn")
)
changes.createOrReplaceTempView("changes")

# COMMAND ----------

# MAGIC %sql
# MAGIC MERGE INTO gold.policy t
# MAGIC USING changes s
# MAGIC ON t.policy_no = s.policy_no AND t.risk_no = s.risk_no
# MAGIC WHEN MATCHED THEN UPDATE SET *
# MAGIC WHEN NOT MATCHED THEN INSERT *

# COMMAND ----------

spark.sql("SELECT count(*) FROM gold.policy").show()
