import smtplib
from datetime import datetime, timedelta
from email.mime.text import MIMEText

import stripe
from airflow import DAG
from airflow.hooks.base import BaseHook
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook


def charge_and_mail(ds, **context):
    hook = PostgresHook("billing")
    stripe.api_key = BaseHook.get_connection("stripe").password
    due = hook.get_records(
        "SELECT invoice_id, customer_id, stripe_id, email, amount_cents FROM invoices WHERE due_date = %s AND state = 'open'",
        parameters=[ds],
    )
    smtp = smtplib.SMTP("smtp.acme.example")
    for invoice_id, customer_id, stripe_id, email, cents in due:
        stripe.PaymentIntent.create(
            amount=cents,
            currency="eur",
            customer=stripe_id,
            confirm=True,
            metadata={"invoice": invoice_id},
        )
        msg = MIMEText(f"Your invoice {invoice_id} over {cents / 100:.2f} EUR was paid. Thank you!")
        msg["Subject"] = "Your invoice"
        msg["From"] = "billing@acme.example"
        msg["To"] = email
        smtp.sendmail(msg["From"], [email], msg.as_string())
        hook.run("UPDATE invoices SET state = 'paid' WHERE invoice_id = %s", parameters=[invoice_id])
    smtp.quit()


with DAG(
    dag_id="invoice_mailer",
    start_date=datetime(2024, 1, 1),
    schedule="0 6 * * *",
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
):
    PythonOperator(task_id="charge_and_mail", python_callable=charge_and_mail)
