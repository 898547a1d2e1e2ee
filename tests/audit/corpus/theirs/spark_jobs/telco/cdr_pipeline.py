"""
Call detail records: landing -> staged -> rated -> mart.

The job is started by Oozie with the business date; all output is partitioned by call_date.
"""
import json
import logging
import sys
from dataclasses import dataclass, field
from typing import Dict, List

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
logging.basicConfig(format=LOG_FORMAT, level=logging.INFO)
logger = logging.getLogger("cdr")

CDR_SCHEMA = T.StructType(
    [
        T.StructField("record_id", T.StringType(), False),
        T.StructField("a_number", T.StringType()),
        T.StructField("b_number", T.StringType()),
        T.StructField("start_ts", T.TimestampType()),
        T.StructField("duration", T.IntegerType()),
        T.StructField("cell", T.StringType()),
    ]
)


@dataclass
class Sink:
    table: str
    mode: str
    partitions: List[str] = field(default_factory=list)
    options: Dict[str, str] = field(default_factory=dict)


SINKS = {
    "staged": Sink("telco.cdr_staged", "overwrite", ["call_date"]),
    "rated": Sink("telco.cdr_rated", "overwrite", ["call_date"]),
    "rejected": Sink("telco.cdr_rejected", "append", ["call_date"]),
    "mart": Sink("telco.usage_daily", "overwrite", ["call_date"]),
}


def write(df: DataFrame, sink: Sink) -> None:
    writer = df.write.format("parquet").mode(sink.mode)
    for k, v in sink.options.items():
        writer = writer.option(k, v)
    if sink.partitions:
        writer = writer.partitionBy(*sink.partitions)
    writer.saveAsTable(sink.table)
    logger.info("wrote %s (%s)", sink.table, sink.mode)


class CdrJob:
    def __init__(self, spark: SparkSession, business_date: str):
        self.spark = spark
        self.business_date = business_date

    def landing(self) -> DataFrame:
        path = f"hdfs:///landing/cdr/{self.business_date}/*.csv"
        return self.spark.read.schema(CDR_SCHEMA).csv(path).withColumn("call_date", F.lit(self.business_date))

    def split(self, df: DataFrame):
        ok = F.col("a_number").isNotNull() & F.col("start_ts").isNotNull() & (F.col("duration") >= 0)
        return df.where(ok), df.where(~ok)

    def rate(self, df: DataFrame) -> DataFrame:
        tariffs = self.spark.table("telco.tariff").where(F.col("valid_on") == self.business_date)
        with_prefix = df.withColumn("prefix", F.substring("b_number", 1, 4))
        return with_prefix.join(F.broadcast(tariffs), "prefix", "left").withColumn(
            "charge", F.ceil(F.col("duration") / 60) * F.coalesce(F.col("price_per_minute"), F.lit(0))
        )

    def mart(self, rated: DataFrame) -> DataFrame:
        return rated.groupBy("call_date", "a_number").agg(
            F.count("*").alias("calls"), F.sum("duration").alias("seconds"), F.sum("charge").alias("charge")
        )

    def run(self) -> None:
        good, bad = self.split(self.landing())
        write(good, SINKS["staged"])
        write(bad, SINKS["rejected"])
        rated = self.rate(good)
        write(rated, SINKS["rated"])
        write(self.mart(rated), SINKS["mart"])


def main(argv: List[str]) -> int:
    if len(argv) != 2:
        logger.error("usage: cdr_pipeline.py BUSINESS_DATE")
        return 2
    spark = SparkSession.builder.appName("cdr").enableHiveSupport().getOrCreate()
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    logger.info("config: %s", json.dumps({k: v.table for k, v in SINKS.items()}))
    CdrJob(spark, argv[1]).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
