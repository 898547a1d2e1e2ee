"""Publishes the outbox: each message is marked in the same transaction that picked it, and carries its own key."""
import json
import logging
import os
import signal

import psycopg2
import psycopg2.extras
from confluent_kafka import Producer

log = logging.getLogger("outbox")
RUNNING = True


def stop(*_):
    global RUNNING
    RUNNING = False


def publish_batch(conn, producer, topic):
    with conn:
        with conn.cursor(cursor_factory=psycopg2.extras.DictCursor) as cur:
            cur.execute(
                "SELECT message_id, aggregate_id, body FROM outbox WHERE sent = false ORDER BY message_id LIMIT 500 FOR UPDATE SKIP LOCKED"
            )
            rows = cur.fetchall()
            for row in rows:
                producer.produce(
                    topic,
                    key=str(row["aggregate_id"]),
                    value=json.dumps(row["body"]),
                    headers={"message-id": str(row["message_id"])},
                )
            producer.flush(30)
            cur.execute("UPDATE outbox SET sent = true WHERE message_id = ANY(%s)", ([r["message_id"] for r in rows],))
    return len(rows)


def main():
    signal.signal(signal.SIGTERM, stop)
    conn = psycopg2.connect(os.environ["DSN"])
    producer = Producer({"bootstrap.servers": os.environ["KAFKA"], "enable.idempotence": True, "acks": "all"})
    while RUNNING:
        n = publish_batch(conn, producer, "orders.v1")
        log.debug("published %d", n)
        if n == 0:
            signal.sigtimedwait([signal.SIGTERM], 2)


if __name__ == "__main__":
    main()
