from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.decorators import dag, task
from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.providers.amazon.aws.hooks.s3 import S3Hook


@dag(
    dag_id="hourly_transactions",
    schedule="@hourly",
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 0},
)
def hourly_transactions():
    @task
    def copy_hour(data_interval_start=None, data_interval_end=None):
        hook = PostgresHook("tx")
        day = data_interval_start.date()
        conn = hook.get_conn()
        cur = conn.cursor()
        cur.execute("DELETE FROM reporting.tx_hourly WHERE tx_day = %s", (day,))
        conn.commit()
        cur.execute("""
            INSERT INTO reporting.tx_hourly (tx_day, tx_hour, merchant_id, amount)
            SELECT date(tx_ts), extract(hour from tx_ts), merchant_id, sum(amount)
            FROM tx.transaction
            WHERE tx_ts >= %s AND tx_ts < %s
            GROUP BY 1, 2, 3
            """, (data_interval_start, data_interval_end),
        )
        conn.commit()
        cur.close()
        conn.close()

    @task(execution_timeout=timedelta(minutes=5))
    def export(data_interval_start=None):
        rows = PostgresHook("tx").get_records(
            "SELECT * FROM reporting.tx_hourly WHERE tx_day = %s ORDER BY 1, 2, 3", parameters=[data_interval_start.date()]
        )
        body = "\n".join(",".join(map(str, r)) for r in rows)
        S3Hook().load_string(body, key=f"tx/{data_interval_start:%Y/%m/%d}.csv", bucket_name="reports", replace=True)

    copy_hour() >> export()


hourly_transactions()
