import os
from datetime import datetime

from airflow import DAG
from airflow.models import Variable
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook
from slack_sdk import WebClient


def on_failure(context):
    WebClient(token=Variable.get("slack_token")).chat_postMessage(
        channel="#alerts", text=f"{context['task_instance'].task_id} failed: {context.get('exception')}"
    )


def digest(ds, **_):
    n = PostgresHook("dwh").get_first("select count(*) from sales.orders where order_date = %s", parameters=[ds])[0]
    client = WebClient(token=Variable.get("slack_token"))
    client.chat_postMessage(channel="#sales", text=f"{n} orders on {ds}")


def reprice(ds, **_):
    import requests

    rows = PostgresHook("dwh").get_records("select sku, new_price from pricing.changes where valid_from = %s", parameters=[ds])
    for sku, price in rows:
        requests.patch(f"https://shop.example/api/products/{sku}", json={"price_delta": float(price)}, timeout=10)


with DAG(
    "slack_digest",
    start_date=datetime(2024, 1, 1),
    schedule="0 7 * * *",
    catchup=False,
    default_args={"retries": 1, "on_failure_callback": on_failure},
) as dag:
    a = PythonOperator(task_id="reprice", python_callable=reprice)
    b = PythonOperator(task_id="digest", python_callable=digest)
    a >> b
