"""Money is moved without an idempotency key.

The second run charges, refunds or pays out again. It happens within one run too: the answer of the first try is lost,
the client tries again, and the card is charged twice.

Looking payments up and listing them is not reported.

**Instead**, pass a key that is the same in every run; every provider takes one:

    stripe.Charge.create(…, idempotency_key=f"invoice-{invoice['id']}")
    # twice
    key_hash("invoice", invoice_id) as the key, read from a published table
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.acting import repeated

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at every call that moves money."""
    for effect in repeated(job, "payment"):
        yield finding(
            __name__,
            effect.place,
            f"a second run calls {effect.name} again: without an idempotency key it pays, or creates, a second time",
            instead='idempotency_key=f"invoice-{id}": made of what is paid for, the same in every run',
            with_twice="key_hash(…) of what is paid for as the idempotency key",
        )
