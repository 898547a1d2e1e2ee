"""Loads orders from the shop database into the warehouse."""
from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook

default_args = {
    "owner": "dwh",
    "depends_on_past": False,
    "email": ["dwh@acme.example"],
    "email_on_failure": True,
    "retries": 3,
    "retry_delay": timedelta(minutes=5),
}

def extract(ds, **_):
    src = PostgresHook(postgres_conn_id="shop")
    rows = src.get_records(
        "SELECT order_id, customer_id, order_ts, total FROM orders WHERE order_ts::date = %s", parameters=(ds,)
    )
    print(f"{len(rows)} orders of {ds}")
    return rows


def load(ti, **_):
    rows = ti.xcom_pull(task_ids="extract")
    dst = PostgresHook(postgres_conn_id="dwh")
    with dst.get_conn() as conn, conn.cursor() as cur:
        cur.executemany(
            "INSERT INTO dwh.fact_orders (order_id, customer_id, order_ts, total, loaded_at) "
            "VALUES (%s, %s, %s, %s, now())",
            rows,
        )
        conn.commit()


with DAG(
    "orders_to_dwh",
    default_args=default_args,
    start_date=datetime(2023, 1, 1),
    schedule_interval="@daily",
    catchup=False,
    max_active_runs=1,
) as dag:
    t1 = PythonOperator(task_id="extract", python_callable=extract)
    t2 = PythonOperator(task_id="load", python_callable=load)
    t1 >> t2
