import sys
from awsglue.transforms import *
from awsglue.utils import getResolvedOptions
from pyspark.context import SparkContext
from awsglue.context import GlueContext
from awsglue.dynamicframe import DynamicFrame
from awsglue.job import Job

args = getResolvedOptions(sys.argv, ["JOB_NAME", "partition_date"])
sc = SparkContext()
glueContext = GlueContext(sc)
spark = glueContext.spark_session
job = Job(glueContext)
job.init(args["JOB_NAME"], args)

# Script generated for node Data Catalog table
orders_node1 = glueContext.create_dynamic_frame.from_catalog(
    database="landing",
    table_name="orders",
    push_down_predicate="partition_date == '" + args["partition_date"] + "'",
    transformation_ctx="orders_node1",
)

# Script generated for node ApplyMapping
mapped_node2 = ApplyMapping.apply(
    frame=orders_node1,
    mappings=[
        ("order_id", "string", "order_id", "string"),
        ("customer", "string", "customer_id", "string"),
        ("amount", "double", "amount", "decimal(18,2)"),
        ("partition_date", "string", "partition_date", "string"),
    ],
    transformation_ctx="mapped_node2",
)

# Script generated for node S3 bucket
sink_node3 = glueContext.write_dynamic_frame.from_options(
    frame=mapped_node2,
    connection_type="s3",
    format="glueparquet",
    connection_options={"path": "s3://acme-curated/orders/", "partitionKeys": ["partition_date"]},
    transformation_ctx="sink_node3",
)

job.commit()
