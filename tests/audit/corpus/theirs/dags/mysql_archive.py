from airflow import DAG
from airflow.operators.mysql_operator import MySqlOperator
from airflow.operators.slack_operator import SlackAPIPostOperator
from datetime import datetime, timedelta

# moves old rows to the archive, keeps 90 days

dag = DAG('mysql_archive', start_date=datetime(2020, 1, 1), schedule_interval='@daily', catchup=False,
          default_args={'owner': 'ops', 'retries': 1, 'retry_delay': timedelta(minutes=2)})

notify = SlackAPIPostOperator(
    task_id='notify',
    token='{{ var.value.slack_token }}',
    channel='#ops',
    text='orders up to {{ ds }} were archived',
    dag=dag,
)

copy = MySqlOperator(
    task_id='copy',
    mysql_conn_id='shop',
    sql="""
        INSERT INTO orders_archive
        SELECT * FROM orders WHERE created_at < DATE_SUB('{{ ds }}', INTERVAL 90 DAY)
    """,
    dag=dag,
)

purge = MySqlOperator(
    task_id='purge',
    mysql_conn_id='shop',
    sql="DELETE FROM orders WHERE created_at < DATE_SUB('{{ ds }}', INTERVAL 90 DAY)",
    dag=dag,
)

notify >> copy >> purge
