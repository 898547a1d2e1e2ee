from datetime import datetime, timedelta
from airflow import DAG
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.utils.dates import days_ago

today = datetime.now().strftime("%Y%m%d")

args = {
    "owner": "crm-team",
    "start_date": days_ago(1),
    "retries": 0,
}

dag = DAG("crm_snapshot", default_args=args, schedule_interval="0 4 * * *", catchup=False, description="daily CRM snapshot")

create = SQLExecuteQueryOperator(
    task_id="create_table",
    conn_id="dwh",
    sql="""
        CREATE TABLE IF NOT EXISTS crm.contact_snapshot (
            snapshot_day text, contact_id bigint, stage text, owner text
        )
    """,
    dag=dag,
)

common = {"conn_id": "dwh", "dag": dag}
delete_old = SQLExecuteQueryOperator(task_id="delete_day", sql=f"DELETE FROM crm.contact_snapshot WHERE snapshot_day = '{today}'", **common)
insert_new = SQLExecuteQueryOperator(task_id="insert_day", sql=f"INSERT INTO crm.contact_snapshot SELECT '{today}', id, stage, owner FROM crm.contacts", **common)

create >> delete_old >> insert_new
