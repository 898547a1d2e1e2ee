from __future__ import annotations

import pendulum
from airflow import DAG
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator
from airflow.providers.google.cloud.transfers.gcs_to_bigquery import GCSToBigQueryOperator
from airflow.operators.email import EmailOperator

PROJECT = "acme-prod"

KPI_SQL = """
SELECT DATE('{{ ds }}') AS kpi_date, country, COUNT(DISTINCT user_id) AS dau, SUM(revenue) AS revenue
FROM `acme-prod.events.sessions`
WHERE session_date = DATE('{{ ds }}')
GROUP BY country
"""

with DAG(
    "bq_daily_kpis",
    schedule="30 3 * * *",
    start_date=pendulum.datetime(2024, 2, 1, tz="UTC"),
    catchup=True,
    default_args={"retries": 2},
) as dag:
    load_raw = GCSToBigQueryOperator(
        task_id="load_raw",
        bucket="acme-landing",
        source_objects=["sessions/dt={{ ds }}/*.avro"],
        destination_project_dataset_table=PROJECT + ".events.sessions${{ ds_nodash }}",
        source_format="AVRO",
        write_disposition="WRITE_TRUNCATE",
    )

    kpis = BigQueryInsertJobOperator(
        task_id="kpis",
        configuration={
            "query": {
                "query": KPI_SQL,
                "useLegacySql": False,
                "destinationTable": {"projectId": PROJECT, "datasetId": "mart", "tableId": "kpis_daily${{ ds_nodash }}"},
                "writeDisposition": "WRITE_TRUNCATE",
                "timePartitioning": {"type": "DAY", "field": "kpi_date"},
            }
        },
    )

    history_sql = "SELECT * FROM `acme-prod.mart.kpis_daily` WHERE kpi_date = DATE('{{ ds }}')"
    kpis_history = {"projectId": PROJECT, "datasetId": "mart", "tableId": "kpis_history"}
    history = BigQueryInsertJobOperator(
        task_id="history",
        configuration={
            "query": {"query": history_sql, "useLegacySql": False, "destinationTable": kpis_history, "writeDisposition": "WRITE_APPEND"}
        },
    )

    mail = EmailOperator(
        task_id="mail",
        to="board@acme.example",
        subject="KPIs of {{ ds }}",
        html_content="The numbers of {{ ds }} are in the dashboard.",
    )

    load_raw >> kpis >> history >> mail
