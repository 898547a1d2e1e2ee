import logging
from datetime import datetime

import paypalrestsdk
from airflow.decorators import dag, task
from airflow.providers.postgres.hooks.postgres import PostgresHook
from kafka import KafkaProducer

log = logging.getLogger("payouts")


@dag(schedule="@weekly", start_date=datetime(2024, 1, 1), catchup=False, default_args={"retries": 1})
def payouts():
    @task
    def pay(data_interval_start=None, data_interval_end=None):
        hook = PostgresHook("market")
        sellers = hook.get_records(
            "SELECT seller_id, paypal, SUM(amount) FROM sale WHERE sold_at >= %s AND sold_at < %s GROUP BY 1, 2 ORDER BY 1",
            parameters=[data_interval_start, data_interval_end],
        )
        producer = KafkaProducer(bootstrap_servers="kafka:9092")
        for seller_id, mail, amount in sellers:
            payout = paypalrestsdk.Payout(
                {
                    "sender_batch_header": {"email_subject": "Your weekly payout"},
                    "items": [{"recipient_type": "EMAIL", "receiver": mail, "amount": {"value": str(amount), "currency": "EUR"}}],
                }
            )
            if not payout.create():
                log.error("payout to %s failed: %s", seller_id, payout.error)
                continue
            producer.send("payouts", value=str(seller_id).encode())
        producer.flush()

    pay()


payouts()
