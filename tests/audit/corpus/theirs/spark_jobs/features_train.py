"""Creates the train/test features of the churn model."""
import logging

from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

log = logging.getLogger("features")
CATEGORICAL = {"plan", "region", "channel"}
SNAPSHOT = "2024-06-30"


def load(spark):
    base = spark.table("mart.subscriptions").filter(F.col("snapshot_date") == SNAPSHOT)
    usage = (
        spark.table("mart.usage_daily")
        .filter((F.col("usage_date") >= F.date_sub(F.lit(SNAPSHOT), 30)) & (F.col("usage_date") < F.lit(SNAPSHOT)))
        .groupBy("subscription_id")
        .agg(F.sum("minutes").alias("minutes_30d"), F.countDistinct("usage_date").alias("active_days"))
    )
    return base.join(usage, "subscription_id", "left").fillna(0, ["minutes_30d", "active_days"])


def index(df):
    names = []
    for c in CATEGORICAL:
        df = StringIndexer(inputCol=c, outputCol=f"{c}_ix", handleInvalid="keep").fit(df).transform(df)
        names.append(f"{c}_ix")
    return VectorAssembler(inputCols=names + ["minutes_30d", "active_days"], outputCol="features").transform(df)


def main():
    spark = SparkSession.builder.appName("churn-features").getOrCreate()
    df = index(load(spark))
    train, test = df.randomSplit([0.8, 0.2])
    log.info("train %d test %d", train.count(), test.count())
    train.write.mode("overwrite").parquet(f"s3://ml/churn/{SNAPSHOT}/train")
    test.write.mode("overwrite").parquet(f"s3://ml/churn/{SNAPSHOT}/test")
    hard = df.filter("churned = 1").sample(fraction=0.1, seed=42)
    hard.write.mode("overwrite").parquet(f"s3://ml/churn/{SNAPSHOT}/review_sample")


if __name__ == "__main__":
    main()
