from airflow.models import DAG
from airflow.providers.amazon.aws.transfers.s3_to_redshift import S3ToRedshiftOperator
from airflow.providers.amazon.aws.operators.redshift_data import RedshiftDataOperator
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
import pendulum

SCHEMA = "analytics"

with DAG(
    dag_id="redshift_events",
    schedule="0 2 * * *",
    start_date=pendulum.datetime(2023, 5, 1, tz="Europe/Berlin"),
    catchup=False,
    default_args={"owner": "platform", "retries": 1},
) as dag:

    wait = S3KeySensor(
        task_id="wait_for_export",
        bucket_name="acme-events",
        bucket_key="export/{{ ds }}/_SUCCESS",
        poke_interval=300,
        timeout=6 * 3600,
    )

    copy_events = S3ToRedshiftOperator(
        task_id="copy_events",
        schema=SCHEMA,
        table="events",
        s3_bucket="acme-events",
        s3_key="export/{{ ds }}/events/",
        copy_options=["FORMAT AS PARQUET"],
    )

    copy_users = S3ToRedshiftOperator(
        task_id="copy_users",
        schema=SCHEMA,
        table="users",
        s3_bucket="acme-events",
        s3_key="export/{{ ds }}/users/",
        copy_options=["FORMAT AS PARQUET"],
        method="REPLACE",
    )

    copy_devices = S3ToRedshiftOperator(
        task_id="copy_devices",
        schema=SCHEMA,
        table="devices",
        s3_bucket="acme-events",
        s3_key="export/{{ ds }}/devices/",
        copy_options=["FORMAT AS PARQUET"],
        method="UPSERT",
        upsert_keys=["device_id"],
    )

    vacuum = RedshiftDataOperator(
        task_id="analyze",
        cluster_identifier="dwh",
        database="prod",
        sql="ANALYZE analytics.events;",
    )

    wait >> [copy_events, copy_users, copy_devices] >> vacuum
