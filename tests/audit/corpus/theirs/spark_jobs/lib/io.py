"""Small reading and writing functions for the jobs in this folder."""
from pyspark.sql import DataFrame, SparkSession


def read_day(spark: SparkSession, table: str, day: str) -> DataFrame:
    return spark.table(table).where(f"ds = '{day}'")


def save(df: DataFrame, table: str, mode: str = "append") -> None:
    df.write.format("parquet").mode(mode).insertInto(table)


def row_count(spark: SparkSession, table: str, day: str) -> int:
    return read_day(spark, table, day).count()


def replace_day(df: DataFrame, table: str, day: str) -> None:
    (
        df.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"ds = '{day}'")
        .saveAsTable(table)
    )
