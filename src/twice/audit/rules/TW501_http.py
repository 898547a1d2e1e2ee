"""A request that changes something is sent without an idempotency key.

A second run sends every POST again: the partner gets each order twice, and cannot tell a repetition from a new one.
It happens within one run too, when the answer got lost and the client tries again.

Requests for tokens, queries that are sent by POST, failure reports, and requests behind a check of what was already
sent are not reported, nor are requests that ask the receiver to merge (`on_conflict=`, an upsert endpoint).

**Instead**, send a key that is the same in every run, made of what the request is about, and remember what was sent:

    requests.post(url, json=row, headers={"Idempotency-Key": f"orders-{day}-{row['order_id']}"})
    # twice
    key_hash(day, row["order_id"]) as the key; compute first, publish, and send from the published table
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.acting import repeated

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at every request that is not a GET."""
    for effect in repeated(job, "http"):
        to = f" to {effect.url}" if effect.url else ""
        yield finding(
            __name__,
            effect.place,
            f"a second run sends this {effect.method.upper()}{to} again, and the receiver cannot recognise it",
            instead='send a header "Idempotency-Key" made of the row\'s own key and date, or record what was sent '
            "and ask before sending",
            with_twice="key_hash(…) of the row's key as the idempotency key",
        )
