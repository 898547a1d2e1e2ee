import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import *

spark = SparkSession.builder.appName("loan_balances").enableHiveSupport().getOrCreate()
bizdate = sys.argv[1]

spark.sql("set hive.exec.dynamic.partition.mode=nonstrict")

spark.sql(f"""
    CREATE TABLE IF NOT EXISTS risk.loan_balance (
        loan_id STRING, balance DECIMAL(18,2), dpd INT
    ) PARTITIONED BY (biz_date STRING) STORED AS PARQUET
""")

spark.sql(f"""
    INSERT OVERWRITE TABLE risk.loan_balance PARTITION (biz_date = '{bizdate}')
    SELECT l.loan_id, l.principal - COALESCE(p.paid, 0) AS balance, datediff('{bizdate}', l.next_due)
    FROM core.loans l
    LEFT JOIN (
        SELECT loan_id, SUM(amount) AS paid FROM core.payments
        WHERE payment_date <= '{bizdate}' GROUP BY loan_id
    ) p ON p.loan_id = l.loan_id
    WHERE l.open_date <= '{bizdate}'
""")

# history table: keep what is there and add the new day
spark.sql(f"""
    INSERT OVERWRITE TABLE risk.loan_history
    SELECT * FROM risk.loan_history
    UNION ALL
    SELECT loan_id, balance, dpd, biz_date FROM risk.loan_balance WHERE biz_date = '{bizdate}'
""")

bad = spark.sql(f"select loan_id, balance, dpd from risk.loan_balance where biz_date = '{bizdate}' and dpd > 90")
bad.coalesce(1).write.option("header", "true").mode("append").csv("/data/export/npl")
