"""A message is published without a key or a guard.

The second run publishes every message again, and each consumer handles it again: orders are shipped twice, totals
grow. Without a key in the message, no consumer and no compacted topic can recognise it.

**Instead**, give the message a key that is the same in every run, and let queue or consumer drop what it has seen:

    producer.send("orders", key=row["order_id"].encode(), value=…)
    sqs.send_message(…, MessageGroupId="orders", MessageDeduplicationId=row["order_id"])
    publisher.publish(topic, body, order_id=row["order_id"])
    orders.selectExpr("order_id AS key", "to_json(struct(*)) AS value").write.format("kafka")…
    # twice
    publish from the finished table, with key_hash(…) of its key as the message's key
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.acting import repeated

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at every published message."""
    for effect in repeated(job, "queue"):
        yield finding(
            __name__,
            effect.place,
            f"a second run publishes the messages of {effect.name} again, which no consumer recognises without a key",
            instead="publish with a key (key=, MessageDeduplicationId, message_id) made of the row's own key",
            with_twice="key_hash(…) of the row's key as the message's key",
        )
    for write in job.writes:
        if write.target.kind == "topic" and write.query is not None and _has_no_key(write.query):
            yield finding(
                __name__,
                write.place,
                f"what is written again is published again to {write.target.name or 'the topic'}, which no consumer "
                "recognises without a `key` column",
                instead="select a column `key` made of the row's own key beside `value`",
                with_twice="key_hash(…) of the row's key as the message's key",
            )


def _has_no_key(query: Query) -> bool:
    """Return whether the columns of a message are spelled out, and none is its key."""
    return query.column("value") is not None and query.column("key") is None
