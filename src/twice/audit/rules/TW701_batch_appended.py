"""A micro-batch is appended, and nothing knows its number.

`foreachBatch` calls a function that appends, and the function does not use the batch id; the same with `foreachRDD` of
older streams, and the time of the batch.

**On the second run** Spark gives the same batch again: after a crash between the write and the checkpoint it repeats
the last batch with the same number, by design. What was appended is appended again, and every restart may add
duplicates.

**Instead** make the write depend on the number, or merge by key:

```python
batch.write.format("delta").option("txnAppId", "orders").option("txnVersion", batch_id).mode("append").save(path)
```

For a database: in one transaction delete the rows of this `batch_id`, then insert them; or upsert by key.

With `twice` declare a stream, `@pipeline.stream(reads=…, writes=…, dedup=Write("event_id"))`: a batch is committed
together with its number, and an event key is written once.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import first_or_further, was_done_before

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at the appends inside foreachBatch."""
    for write in job.writes:
        if not write.stream_batch_id or write.mode is not Mode.APPEND or write.batch_id_used:
            continue
        if write.target.is_scratch or _only_once(job, write):
            continue
        table = write.target.name or "the table"
        yield finding(
            __name__,
            write.place,
            f"a batch that Spark repeats after a crash is appended to {table} again, because the write does not know "
            "the batch's number",
            instead='.option("txnAppId", …).option("txnVersion", batch_id) on Delta; elsewhere a merge by key, or '
            "delete and insert by batch_id",
            with_twice='@pipeline.stream(…, dedup=Write("event_id")): a batch is committed with its number, a key once',
        )


def _only_once(job: Job, write: Write) -> bool:
    """Return whether a test or a removal keeps rows from coming twice; to ask if the file is there yet does not."""
    if first_or_further(job, write):
        return False
    return was_done_before(write.guarded_by) or job.cleared_by(write) is not None
