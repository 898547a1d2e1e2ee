"""Monthly close: every call carries an idempotency key, every write replaces its month."""
import logging

import pendulum
import requests
import stripe
from airflow.decorators import dag, task
from airflow.exceptions import AirflowException
from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.providers.slack.notifications.slack import send_slack_notification

log = logging.getLogger(__name__)
TOKEN_URL = "https://login.erp.example/oauth/token"


def erp_token(client_id: str, secret: str) -> str:
    r = requests.post(TOKEN_URL, data={"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret})
    r.raise_for_status()
    return r.json()["access_token"]


@dag(
    schedule="@monthly",
    start_date=pendulum.datetime(2023, 1, 1),
    catchup=True,
    default_args={"retries": 4},
    on_failure_callback=[send_slack_notification(text="billing_close failed", channel="#finance-alerts")],
)
def billing_close():
    @task
    def aggregate(ds_nodash=None, data_interval_start=None, data_interval_end=None):
        conn = PostgresHook("billing").get_conn()
        with conn:
            with conn.cursor() as cur:
                cur.execute("DELETE FROM close.monthly WHERE month_start = %s", (data_interval_start.date(),))
                cur.execute(
                    """
                    INSERT INTO close.monthly (month_start, customer_id, amount)
                    SELECT %(start)s, customer_id, SUM(amount)
                    FROM invoices WHERE booked_at >= %(start)s AND booked_at < %(end)s
                    GROUP BY customer_id
                    """,
                    {"start": data_interval_start.date(), "end": data_interval_end.date()},
                )
        conn.close()

    @task
    def book(data_interval_start=None):
        month = data_interval_start.strftime("%Y-%m")
        rows = PostgresHook("billing").get_records(
            "SELECT customer_id, amount FROM close.monthly WHERE month_start = %s", parameters=[data_interval_start.date()]
        )
        for customer_id, amount in rows:
            stripe.InvoiceItem.create(
                customer=customer_id, amount=int(amount * 100), currency="eur", idempotency_key=f"close-{month}-{customer_id}"
            )
            resp = requests.post(
                "https://erp.example/api/bookings",
                json={"customer": customer_id, "amount": str(amount)},
                headers={"Idempotency-Key": f"{month}/{customer_id}"},
                timeout=20,
            )
            if resp.status_code >= 400:
                raise AirflowException(f"ERP refused {customer_id}: {resp.text}")
        log.info("%d bookings for %s", len(rows), month)

    aggregate() >> book()


billing_close()
