import sys
import logging
from datetime import datetime
from awsglue.transforms import *
from awsglue.utils import getResolvedOptions
from awsglue.context import GlueContext
from awsglue.job import Job
from pyspark.context import SparkContext
from pyspark.sql import functions as F
from pyspark.sql.window import Window
from awsglue.dynamicframe import DynamicFrame
import boto3

args = getResolvedOptions(sys.argv, ["JOB_NAME", "SOURCE_BUCKET", "TARGET_BUCKET", "TOPIC_ARN"])

sc = SparkContext()
glueContext = GlueContext(sc)
spark = glueContext.spark_session
job = Job(glueContext)
job.init(args["JOB_NAME"], args)

logger = logging.getLogger(args["JOB_NAME"])
logger.setLevel(logging.INFO)

SOURCE = f"s3://{args['SOURCE_BUCKET']}/claims/"
BRONZE = f"s3://{args['TARGET_BUCKET']}/bronze/claims/"
SILVER = f"s3://{args['TARGET_BUCKET']}/silver/claims/"
GOLD = f"s3://{args['TARGET_BUCKET']}/gold/claims_by_provider/"

now = datetime.utcnow()
year, month, day = now.strftime("%Y"), now.strftime("%m"), now.strftime("%d")


def read_source():
    return glueContext.create_dynamic_frame.from_options(
        connection_type="s3",
        connection_options={"paths": [f"{SOURCE}{year}/{month}/{day}/"], "recurse": True},
        format="json",
        transformation_ctx="read_source",
    )


def standardize(df):
    for c in df.columns:
        df = df.withColumnRenamed(c, c.strip().lower().replace(" ", "_"))
    df = df.withColumn("claim_amount", F.col("claim_amount").cast("decimal(14,2)"))
    df = df.withColumn("service_date", F.to_date("service_date", "MM/dd/yyyy"))
    df = df.withColumn("ingestion_timestamp", F.current_timestamp())
    return df


def keep_latest(df):
    w = Window.partitionBy("claim_id").orderBy(F.col("ingestion_timestamp").desc())
    return df.withColumn("rn", F.row_number().over(w)).filter(F.col("rn") == 1).drop("rn")


def notify(n):
    sns = boto3.client("sns")
    sns.publish(TopicArn=args["TOPIC_ARN"], Subject="claims loaded", Message=f"{n} claims")


dyf = read_source()
raw = dyf.toDF()
logger.info("records: %d", raw.count())

glueContext.write_dynamic_frame.from_options(
    frame=dyf,
    connection_type="s3",
    connection_options={"path": BRONZE},
    format="parquet",
)

silver = keep_latest(standardize(raw))
notify(silver.count())
silver.write.mode("append").partitionBy("service_date").parquet(SILVER)

gold = (
    spark.read.parquet(SILVER)
    .groupBy("provider_id")
    .agg(F.countDistinct("claim_id").alias("claims"), F.sum("claim_amount").alias("amount"))
)
gold.write.mode("overwrite").parquet(GOLD)

job.commit()
