from pyspark.sql import SparkSession
from pyspark.sql.functions import col, max as max_, to_date, lit

TARGET = "silver.card_auth"
SOURCE = "bronze.card_auth"


def get_spark():
    return (
        SparkSession.builder.appName("card_auth")
        .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
        .getOrCreate()
    )


def high_water(spark):
    row = spark.table(TARGET).agg(max_("auth_ts").alias("m")).first()
    return row["m"] if row["m"] is not None else "1970-01-01"


def main():
    spark = get_spark()
    mark = high_water(spark)
    print(f"reading authorisations after {mark}")
    fresh = (
        spark.table(SOURCE)
        .where(col("auth_ts") > lit(mark))
        .withColumn("auth_date", to_date("auth_ts"))
        .select("auth_id", "card_token", "amount", "auth_ts", "auth_date")
    )
    if fresh.limit(1).count() == 0:
        print("nothing new")
        return
    fresh.write.mode("overwrite").insertInto(TARGET)
    newest = spark.table(SOURCE).agg(max_("auth_ts")).first()[0]
    print("source is at", newest)


if __name__ == "__main__":
    main()
