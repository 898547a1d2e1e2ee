import os
import sys
import logging

import psycopg2
from sendgrid import SendGridAPIClient
from sendgrid.helpers.mail import Mail

log = logging.getLogger("campaign")


def recipients(conn, campaign):
    with conn.cursor() as cur:
        cur.execute(
            "SELECT customer_id, email FROM campaign_recipient WHERE campaign = %s ORDER BY random() LIMIT 5000",
            (campaign,),
        )
        return cur.fetchall()


def main(campaign):
    conn = psycopg2.connect(os.environ["CRM_DSN"])
    sg = SendGridAPIClient(os.environ["SENDGRID_KEY"])
    people = recipients(conn, campaign)
    for customer_id, email in people:
        mail = Mail(from_email="news@acme.example", to_emails=email, subject="Spring sale", html_content="<b>-20%</b>")
        resp = sg.send(mail)
        log.info("%s -> %s", customer_id, resp.status_code)
    with conn, conn.cursor() as cur:
        cur.execute("UPDATE campaign SET sent_count = sent_count + %s WHERE campaign = %s", (len(people), campaign))


if __name__ == "__main__":
    main(sys.argv[1])
