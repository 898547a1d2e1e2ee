"""Customer 360: joins five feeds and merges the result by customer."""
import argparse

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--from-ts", required=True)
    p.add_argument("--to-ts", required=True)
    p.add_argument("--target", default="gold.customer_360")
    return p.parse_args()


def changed(spark, table, lo, hi):
    return spark.table(table).where((F.col("updated_at") >= lo) & (F.col("updated_at") <= hi))


def dedupe(df: DataFrame) -> DataFrame:
    w = Window.partitionBy("account_id").orderBy(F.col("updated_at").desc(), F.col("change_id").desc())
    return df.withColumn("_rn", F.row_number().over(w)).where("_rn = 1").drop("_rn")


def main():
    args = arguments()
    spark = SparkSession.builder.appName("customer-360").getOrCreate()
    accounts = dedupe(changed(spark, "silver.accounts", args.from_ts, args.to_ts))
    contacts = spark.table("silver.contacts").select("contact_id", "account_id", "city")
    src = accounts.join(contacts, "account_id", "left").select(
        "customer_id", "account_id", "contact_id", "city", "segment", "updated_at"
    )
    target = DeltaTable.forName(spark, args.target)
    (
        target.alias("t")
        .merge(src.alias("s"), "t.customer_id = s.customer_id AND t.contact_id = s.contact_id")
        .whenMatchedUpdateAll(condition="s.updated_at > t.updated_at")
        .whenNotMatchedInsertAll()
        .execute()
    )


if __name__ == "__main__":
    main()
