# -*- coding: utf-8 -*-
import os
import sys
import logging
from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash_operator import BashOperator
from airflow.operators.dummy_operator import DummyOperator
from airflow.operators.postgres_operator import PostgresOperator
from airflow.operators.python_operator import PythonOperator
from airflow.operators.email_operator import EmailOperator
from airflow.hooks.postgres_hook import PostgresHook
from airflow.models import Variable

log = logging.getLogger(__name__)

CURRENT_DATE = datetime.today()
YESTERDAY = (CURRENT_DATE - timedelta(1)).strftime('%Y-%m-%d')

default_args = {
    'owner': 'bi',
    'depends_on_past': False,
    'start_date': datetime(2018, 1, 1),
    'email_on_retry': False,
    'retries': 2,
    'retry_delay': timedelta(minutes=10),
}

dag = DAG('legacy_dwh_nightly', default_args=default_args, schedule_interval='15 1 * * *', catchup=False)

start = DummyOperator(task_id='start', dag=dag)

truncate_stage = PostgresOperator(
    task_id='truncate_stage',
    postgres_conn_id='dwh',
    sql='TRUNCATE TABLE stage.sales_line',
    dag=dag,
)

load_stage = PostgresOperator(
    task_id='load_stage',
    postgres_conn_id='dwh',
    sql="""
        INSERT INTO stage.sales_line (sale_id, line_no, sku, qty, price, sale_date)
        SELECT sale_id, line_no, sku, qty, price, sale_date
        FROM fdw.sales_line
        WHERE sale_date = '%s'
    """ % YESTERDAY,
    dag=dag,
)

load_fact = PostgresOperator(
    task_id='load_fact',
    postgres_conn_id='dwh',
    sql="""
        INSERT INTO dwh.fact_sales (sale_id, line_no, sku_key, qty, amount, sale_date)
        SELECT s.sale_id, s.line_no, p.sku_key, s.qty, s.qty * s.price, s.sale_date
        FROM stage.sales_line s
        JOIN dwh.dim_product p ON p.sku = s.sku
    """,
    dag=dag,
)


def check_counts(**context):
    hook = PostgresHook('dwh')
    a = hook.get_first("SELECT count(*) FROM stage.sales_line")[0]
    b = hook.get_first("SELECT count(*) FROM dwh.fact_sales WHERE sale_date = %s", parameters=(context['ds'],))[0]
    log.info('stage %s fact %s', a, b)
    if a != b:
        raise ValueError('counts differ: %s / %s' % (a, b))


check = PythonOperator(task_id='check_counts', python_callable=check_counts, provide_context=True, dag=dag)

update_totals = PostgresOperator(
    task_id='update_totals',
    postgres_conn_id='dwh',
    sql="""
        UPDATE dwh.product_total t SET sold = t.sold + x.qty
        FROM (SELECT sku_key, sum(qty) qty FROM dwh.fact_sales WHERE sale_date = '{{ ds }}' GROUP BY sku_key) x
        WHERE x.sku_key = t.sku_key
    """,
    dag=dag,
)

backup = BashOperator(task_id='backup', bash_command='pg_dump dwh | gzip > /backup/dwh_{{ ds }}.sql.gz', dag=dag)

report = EmailOperator(task_id='report', to='bi@acme.example', subject='DWH {{ ds }}', html_content='done', dag=dag)

start >> truncate_stage >> load_stage >> load_fact >> check >> update_totals >> [backup, report]
