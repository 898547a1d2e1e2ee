"""Stream into Delta with a merge per batch: replaying a batch changes nothing."""
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("accounts-cdc").getOrCreate()
TARGET = "core.accounts"


def newest(batch: DataFrame) -> DataFrame:
    w = Window.partitionBy("account_id").orderBy(F.col("lsn").desc())
    return batch.withColumn("rn", F.row_number().over(w)).filter("rn = 1").drop("rn")


def apply(batch: DataFrame, batch_id: int) -> None:
    table = DeltaTable.forName(batch.sparkSession, TARGET)
    (
        table.alias("t")
        .merge(newest(batch).alias("s"), "t.account_id = s.account_id")
        .whenMatchedDelete("s.op = 'd' AND s.lsn > t.lsn")
        .whenMatchedUpdateAll("s.lsn > t.lsn")
        .whenNotMatchedInsertAll("s.op <> 'd'")
        .execute()
    )


cdc = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "broker:9092")
    .option("subscribe", "accounts.cdc")
    .load()
    .selectExpr("from_json(cast(value as string), 'account_id string, op string, lsn long, balance decimal(18,2)') v")
    .select("v.*")
)

cdc.writeStream.foreachBatch(apply).option("checkpointLocation", "s3://chk/accounts").start().awaitTermination()
