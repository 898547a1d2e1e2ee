import pendulum
from airflow import DAG
from airflow.providers.snowflake.operators.snowflake import SnowflakeOperator

START = pendulum.datetime(2023, 1, 1, tz="UTC")

REPLACE_DAY = """
BEGIN;
DELETE FROM MART.FACT_SHIPMENTS WHERE SHIP_DATE = '{{ ds }}';
INSERT INTO MART.FACT_SHIPMENTS (SHIPMENT_ID, CARRIER, SHIP_DATE, WEIGHT_KG)
SELECT SHIPMENT_ID, CARRIER, SHIP_DATE, WEIGHT_KG
FROM STAGE.SHIPMENTS
WHERE SHIP_DATE = '{{ ds }}'
QUALIFY ROW_NUMBER() OVER (PARTITION BY SHIPMENT_ID ORDER BY FILE_ROW_NUMBER DESC, FILE_NAME DESC) = 1;
COMMIT;
"""

RETENTION = "DELETE FROM AUDIT.LOAD_LOG WHERE LOGGED_AT < DATEADD(day, -180, CURRENT_TIMESTAMP())"

with DAG("backfill_safe_fact", schedule="@daily", start_date=START, catchup=True, default_args={"retries": 3}) as dag:
    load = SnowflakeOperator(task_id="replace_day", snowflake_conn_id="sf", sql=REPLACE_DAY)

    log_run = SnowflakeOperator(
        task_id="log_run",
        snowflake_conn_id="sf",
        sql="INSERT INTO AUDIT.LOAD_LOG (JOB, RUN_ID, DS, LOGGED_AT) VALUES ('fact_shipments', '{{ run_id }}', '{{ ds }}', CURRENT_TIMESTAMP())",
    )

    prune = SnowflakeOperator(task_id="prune_log", snowflake_conn_id="sf", sql=RETENTION)

    load >> log_run >> prune
