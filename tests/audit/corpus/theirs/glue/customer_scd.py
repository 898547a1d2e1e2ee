import sys
from datetime import datetime

import boto3
from awsglue.context import GlueContext
from awsglue.job import Job
from awsglue.utils import getResolvedOptions
from pyspark.context import SparkContext
from pyspark.sql import functions as F
from pyspark.sql.window import Window

args = getResolvedOptions(sys.argv, ["JOB_NAME", "bucket", "run_date"])
glue = GlueContext(SparkContext.getOrCreate())
spark = glue.spark_session
logger = glue.get_logger()
job = Job(glue)
job.init(args["JOB_NAME"], args)
logger.info("started at " + str(datetime.now()))

spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")

src = spark.read.json(f"s3://{args['bucket']}/raw/customers/{args['run_date']}/")
w = Window.partitionBy("customer_id").orderBy(F.col("change_no").desc())
current = src.withColumn("rn", F.row_number().over(w)).where("rn = 1").drop("rn")

current = current.withColumn("snapshot_date", F.lit(args["run_date"]))
current.write.mode("overwrite").partitionBy("snapshot_date").parquet(f"s3://{args['bucket']}/silver/customers/")

athena = boto3.client("athena")
athena.start_query_execution(
    QueryString="MSCK REPAIR TABLE silver.customers",
    ResultConfiguration={"OutputLocation": f"s3://{args['bucket']}/athena/"},
)
job.commit()
