import os
from datetime import datetime

from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

HOME = os.environ.get("AIRFLOW_HOME", "/opt/airflow")

with DAG(
    dag_id="spark_submit_sales",
    start_date=datetime.now(),
    schedule_interval="@daily",
    catchup=True,
    tags=["sales", "spark"],
) as dag:
    start = EmptyOperator(task_id="start")

    clean = SparkSubmitOperator(
        task_id="clean_sales",
        application=f"{HOME}/jobs/clean_sales.py",
        conn_id="spark_default",
        application_args=["--date", datetime.today().strftime("%Y-%m-%d")],
        executor_memory="4g",
    )

    aggregate = SparkSubmitOperator(
        task_id="aggregate_sales",
        application=f"{HOME}/jobs/aggregate_sales.py",
        conn_id="spark_default",
        executor_memory="4g",
    )

    cleanup = BashOperator(
        task_id="cleanup_logs",
        bash_command="find /var/log/spark -mtime +14 -delete",
    )

    start >> clean >> aggregate >> cleanup
