"""
Loads the ledger of a day through a helper that replaces the day in one transaction.
"""
import contextlib
import datetime as dt

import pandas as pd
from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook
from psycopg2.extras import execute_values

TABLE = "finance.ledger"
COLUMNS = ("booking_id", "account", "amount", "booking_date")


@contextlib.contextmanager
def transaction(conn_id):
    conn = PostgresHook(conn_id).get_conn()
    conn.autocommit = False
    try:
        with conn.cursor() as cur:
            yield cur
        conn.commit()
    except Exception:
        conn.rollback()
        raise
    finally:
        conn.close()


def clear_day(cur, day):
    cur.execute(f"DELETE FROM {TABLE} WHERE booking_date = %s", (day,))
    print(f"removed {cur.rowcount} rows of {day}")


def load_day(ds, **kwargs):
    frame = pd.read_csv(f"/data/ledger/{ds}.csv", dtype={"account": str})
    frame["booking_date"] = ds
    frame = frame.merge(pd.read_csv("/data/ref/accounts.csv", dtype=str), on="account", how="left")
    rows = list(frame[list(COLUMNS)].itertuples(index=False, name=None))
    with transaction("finance") as cur:
        clear_day(cur, ds)
        execute_values(cur, f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES %s", rows)
    print("loaded", len(rows), "rows at", dt.datetime.now())


with DAG(
    "ledger",
    start_date=dt.datetime(2022, 1, 1),
    schedule_interval="@daily",
    catchup=True,
    default_args={"retries": 5, "retry_delay": dt.timedelta(minutes=1)},
) as dag:
    PythonOperator(task_id="load_day", python_callable=load_day)
