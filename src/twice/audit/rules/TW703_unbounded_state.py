"""A stream has a watermark that bounds nothing.

`dropDuplicates` after `withWatermark` without the event time among its columns, or a join of two streams without a
limit in time.

**On the second run**, after a restart from a new checkpoint, the state is gone and what was matched or dropped before
is matched or let through again. Until then the state only grows: Spark can forget a key or a waiting row only if its
event time is part of the comparison.

**Instead** put the event time into the comparison:

```python
events.withWatermark("event_time", "2 hours").dropDuplicates(["event_id", "event_time"])
views.join(clicks, F.expr("v.id = c.id AND clicked_at BETWEEN viewed_at AND viewed_at + INTERVAL 1 HOUR"))
```

or use `dropDuplicatesWithinWatermark`.

With `twice`: de-duplicate by the table's key, `write=InsertOnly()`, and join windows of two tables instead of two
streams.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.queries import Query, Source
from twice.audit.rules import finding
from twice.audit.vocabulary import is_time_column

SEVERITY = Severity.WARNING
_RANGE = frozenset({"<", "<=", ">", ">=", "between"})


def check(job: Job) -> Iterator[Finding]:
    """Look at the state of streams."""
    for query, _ in job.all_queries():
        if not query.streaming:
            continue
        if _forgets_nothing(query):
            keys = ", ".join(query.distinct_on or ())
            yield finding(
                __name__,
                query.distinct_place,
                f"the watermark is on `{query.watermark}`, but {keys} is remembered without it, so the state grows "
                "until a new checkpoint lets every duplicate through again",
                instead=f'dropDuplicates([…, "{query.watermark}"]), or dropDuplicatesWithinWatermark',
                with_twice="write=InsertOnly() with a key: the table knows which keys are there",
            )
        for source in query.sources[1:]:
            if _is_stream(source) and _is_stream(query.sources[0]) and not _bounded(source.on):
                yield finding(
                    __name__,
                    source.place,
                    "both streams wait for their partners for ever, so the state grows until a new checkpoint "
                    "matches old rows again",
                    instead="watermarks on both, and a limit in time: … AND c.at BETWEEN v.at AND v.at + INTERVAL 1 "
                    "HOUR",
                    with_twice="join the windows of two tables in a step",
                )


def _forgets_nothing(query: Query) -> bool:
    if not query.distinct_on or not query.watermark or getattr(query, "within_watermark", False):
        return False
    return not any(_tells_time(query, name.lower()) for name in query.distinct_on)


def _tells_time(query: Query, name: str) -> bool:
    """Return whether a column is the watermark's, by whichever name, or the start or end of a window of time."""
    found = query.definition(name)
    column = found if found is not None and found.kind == "column" else Expr("column", name)
    window = column.name == "window" or (bool(column.table) and column.name in {"start", "end"})
    return window or query.watermark.lower() in {name, column.name.lower()}


def _is_stream(source: Source) -> bool:
    return source.kind == "stream" or (source.query is not None and source.query.streaming)


def _bounded(on: Expr | None) -> bool:
    if on is None:
        return False
    ranged = any(part.kind == "op" and part.name in _RANGE for part in on.conjuncts())
    return ranged or any(is_time_column(name) or name == "window" for name in on.columns())
