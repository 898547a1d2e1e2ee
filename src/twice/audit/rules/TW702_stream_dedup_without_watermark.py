"""A stream is de-duplicated and never forgets.

`dropDuplicates` on a stream without `withWatermark`.

**On the second run** the state holds every key that ever came. It grows until the job dies, and a person deletes the
checkpoint: the restarted stream reads its input again, knows none of the keys, and lets every duplicate through.

**Instead** say how late a duplicate may come:

```python
events.withWatermark("event_time", "1 hour").dropDuplicates(["event_id", "event_time"])
events.withWatermark("event_time", "1 hour").dropDuplicatesWithinWatermark(["event_id"])      # Spark 3.5
```

or let the table decide, by a merge on the key inside `foreachBatch`.

With `twice`: `Table(…, key=["event_id"], write=InsertOnly())`: the table, not the stream, knows which keys are there.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look at de-duplications of streams."""
    for query, _ in job.all_queries():
        if query.streaming and not query.watermark and (query.distinct_on is not None or query.distinct):
            keys = ", ".join(query.distinct_on or ()) or "whole rows"
            yield finding(
                __name__,
                query.distinct_place,
                f"the stream remembers {keys} for ever, and after a new checkpoint it remembers nothing and lets "
                "every duplicate through again",
                instead='.withWatermark("event_time", "1 hour") before it, with the event time among the columns',
                with_twice="write=InsertOnly() with a key: the table knows which keys are there",
            )
