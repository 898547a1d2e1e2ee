from datetime import datetime
import csv
import os

import boto3
import psycopg2
from airflow.decorators import dag, task
from airflow.models import Variable


@task
def export(ds=None):
    conn = psycopg2.connect(Variable.get("partner_dsn"))
    path = f"/tmp/partner_{ds}.csv"
    with conn.cursor() as cur, open(path, "w", newline="") as fh:
        cur.execute(
            "SELECT sku, ean, price, stock FROM export.partner_feed WHERE valid_on = %s ORDER BY sku", (ds,)
        )
        w = csv.writer(fh)
        w.writerow(["sku", "ean", "price", "stock"])
        w.writerows(cur)
    conn.close()
    return path


@task
def upload(path: str, ds=None):
    s3 = boto3.client("s3")
    s3.upload_file(path, "partner-drop", f"feeds/{ds}/feed.csv")
    os.remove(path)


@task
def announce(ds=None):
    sqs = boto3.client("sqs")
    sqs.send_message(
        QueueUrl=Variable.get("partner_queue"),
        MessageBody='{"event": "feed_ready", "day": "%s"}' % ds,
    )


@dag(schedule="@daily", start_date=datetime(2023, 3, 1), catchup=False, default_args={"retries": 3})
def partner_export():
    p = export()
    upload(p) >> announce()


partner_export()
