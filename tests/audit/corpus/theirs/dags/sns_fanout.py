import json
import pendulum
import boto3
from airflow.decorators import dag, task
from airflow.providers.amazon.aws.operators.sns import SnsPublishOperator
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator


@dag(schedule="@daily", start_date=pendulum.datetime(2024, 4, 1), catchup=False)
def sns_fanout():
    announce = SnsPublishOperator(
        task_id="announce",
        target_arn="arn:aws:sns:eu-west-1:000000000000:prices",
        message=json.dumps({"day": "{{ ds }}", "state": "prices ready"}),
    )

    build = SQLExecuteQueryOperator(
        task_id="build",
        conn_id="dwh",
        sql=[
            "BEGIN",
            "DELETE FROM price.daily WHERE price_day = '{{ ds }}'",
            "INSERT INTO price.daily SELECT '{{ ds }}'::date, sku, min(price) FROM price.offer WHERE offer_day = '{{ ds }}' GROUP BY sku",
            "COMMIT",
        ],
        autocommit=False,
    )

    @task
    def fifo(ds=None):
        boto3.client("sqs").send_message(
            QueueUrl="https://sqs.eu-west-1.amazonaws.com/000000000000/prices.fifo",
            MessageBody=json.dumps({"day": ds}),
            MessageGroupId="prices",
            MessageDeduplicationId=f"prices-{ds}",
        )

    announce >> build >> fifo()


sns_fanout()
