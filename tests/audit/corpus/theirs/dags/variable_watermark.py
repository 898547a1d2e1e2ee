import logging
from datetime import datetime, timedelta

from airflow import DAG
from airflow.models import Variable
from airflow.operators.python import PythonOperator
from airflow.providers.mysql.hooks.mysql import MySqlHook
from airflow.providers.snowflake.hooks.snowflake import SnowflakeHook

log = logging.getLogger(__name__)


def sync_tickets():
    last = Variable.get("tickets_last_sync", default_var="1970-01-01 00:00:00")
    src = MySqlHook("zendesk_mirror")
    rows = src.get_records("SELECT id, status, priority, updated_at FROM tickets WHERE updated_at > %s", parameters=[last])
    if not rows:
        log.info("nothing since %s", last)
        return
    sf = SnowflakeHook("snowflake")
    sf.insert_rows("SUPPORT.TICKETS", rows, target_fields=["ID", "STATUS", "PRIORITY", "UPDATED_AT"])
    newest = max(r[3] for r in rows)
    Variable.set("tickets_last_sync", newest.strftime("%Y-%m-%d %H:%M:%S"))
    log.info("synced %d tickets up to %s", len(rows), newest)


dag = DAG(
    "variable_watermark",
    start_date=datetime(2022, 8, 1),
    schedule_interval=timedelta(minutes=30),
    catchup=False,
    default_args={"retries": 2},
)
PythonOperator(task_id="sync_tickets", python_callable=sync_tickets, dag=dag)
