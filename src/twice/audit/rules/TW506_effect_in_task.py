"""An effect stands inside a function that Spark runs, and repeats.

Spark runs the function of a UDF, `map`, `foreachPartition` or `foreachBatch` again whenever a task fails, an executor
is lost, a stage is computed once more, or speculation starts a second copy. Whatever it posts, mails or publishes
happens again, without the job being run twice at all.

Effects that carry a key are not reported, and neither are look-ups.

**Instead**, write the rows first, then send from the driver with a key per row; or send the key with every call:

    headers={"Idempotency-Key": row["order_id"]}
    if not seen(batch_id): …            # foreachBatch: the batch id is the same when it is repeated
    # twice
    a step is a plain function of its inputs; send from the published table afterwards
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.acting import repeated

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at every effect in code that runs on executors or per batch."""
    for effect in repeated(job, "http", "mail", "chat", "queue", "payment", inside=True):
        yield finding(
            __name__,
            effect.place,
            f"Spark runs {effect.inside} again when a task or batch is retried, and {effect.name} with it",
            instead="send a key with every call, or write the rows first and send them from the driver once",
            with_twice="keep effects out of steps: send from the published table",
        )
