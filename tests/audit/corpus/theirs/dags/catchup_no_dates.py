"""
### Product feed
Every night the feed of the PIM is loaded to the warehouse.
"""
from datetime import datetime, timedelta
import pandas as pd
import requests
from airflow import DAG
from airflow.operators.python import PythonOperator
from sqlalchemy import create_engine


def load_feed():
    feed = requests.get("https://pim.example/feed.json", timeout=60).json()
    df = pd.DataFrame(feed["products"])
    df["feed_date"] = pd.Timestamp.today().normalize()
    engine = create_engine("postgresql://etl@dwh/dwh")
    df.to_sql("product_feed", engine, if_exists="append", index=False, chunksize=1000)


default_args = {
    'owner': 'airflow',
    'start_date': datetime(2023, 1, 1),
    'retries': 3,
    'retry_delay': timedelta(minutes=1),
}

dag = DAG('product_feed', default_args=default_args, schedule_interval='@daily', catchup=True)

t = PythonOperator(task_id='load_feed', python_callable=load_feed, dag=dag)
