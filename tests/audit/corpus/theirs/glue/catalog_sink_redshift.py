import sys
import boto3
from awsglue.utils import getResolvedOptions
from pyspark.context import SparkContext
from awsglue.context import GlueContext
from awsglue.dynamicframe import DynamicFrame
from awsglue.job import Job
from pyspark.sql.functions import col, lit, current_date, expr

args = getResolvedOptions(sys.argv, ['JOB_NAME', 'TempDir'])
gc = GlueContext(SparkContext())
spark = gc.spark_session
job = Job(gc)
job.init(args['JOB_NAME'], args)

s3 = boto3.client('s3')
objs = s3.list_objects_v2(Bucket='acme-drop', Prefix='claims/')['Contents']
latest = sorted(objs, key=lambda o: o['LastModified'])[-1]['Key']
print('latest file: ' + latest)

claims = spark.read.option('header', 'true').csv('s3://acme-drop/' + latest)
claims = claims.withColumn('claim_amount', col('claim_amount').cast('decimal(12,2)')) \
               .withColumn('report_date', current_date())

dyf = DynamicFrame.fromDF(claims, gc, 'claims')

gc.write_dynamic_frame.from_jdbc_conf(
    frame=dyf,
    catalog_connection='redshift',
    connection_options={'dbtable': 'public.claims', 'database': 'dwh'},
    redshift_tmp_dir=args['TempDir'],
    transformation_ctx='sink',
)

policy = spark.read.parquet('s3://acme-lake/policy/')
dyf2 = DynamicFrame.fromDF(policy, gc, 'policy')
gc.write_dynamic_frame.from_jdbc_conf(
    frame=dyf2,
    catalog_connection='redshift',
    connection_options={
        'preactions': 'truncate table public.policy;',
        'dbtable': 'public.policy',
        'database': 'dwh',
    },
    redshift_tmp_dir=args['TempDir'],
    transformation_ctx='sink2',
)

s3.delete_object(Bucket='acme-drop', Key=latest)
job.commit()
