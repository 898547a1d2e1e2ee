import os
import sys

from pyspark.sql import SparkSession, functions as F

JDBC_URL = "jdbc:postgresql://%s:5432/marketing" % os.getenv("PG_HOST", "localhost")
PROPS = {
    "user": os.getenv("PG_USER"),
    "password": os.getenv("PG_PASSWORD"),
    "driver": "org.postgresql.Driver",
    "batchsize": "5000",
}
WRITE_MODE = {"dev": "overwrite", "prod": "append"}


def read_campaigns(spark):
    return spark.read.jdbc(JDBC_URL, "ref.campaigns", properties=PROPS)


def spend(spark, day):
    df = spark.read.option("header", "true").csv(f"gs://ad-exports/spend/dt={day}/*.csv")
    return (
        df.withColumn("cost", F.col("cost_micros").cast("decimal(20,0)") / F.lit(1000000))
        .withColumn("spend_date", F.lit(day).cast("date"))
        .groupBy("spend_date", "campaign_id")
        .agg(F.sum("cost").alias("cost"), F.sum(F.col("clicks").cast("long")).alias("clicks"))
    )


if __name__ == "__main__":
    day, env = sys.argv[1], sys.argv[2]
    spark = SparkSession.builder.appName("ad_spend").getOrCreate()
    result = spend(spark, day).join(read_campaigns(spark).select("campaign_id", "name", "channel"), "campaign_id", "left")
    result.write.jdbc(JDBC_URL, "mart.ad_spend", mode=WRITE_MODE[env], properties=PROPS)
    print(f"ad spend of {day} stored")
