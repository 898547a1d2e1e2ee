"""Rows are chosen by when they arrived, and written by when they happened.

The filter is on `loaded_at`, `ingestion_date` or `_PARTITIONTIME`, while the target is cut by another date.

**On the second run** a row that came late belongs to another run than the row it stands beside: a run for Tuesday
holds what arrived on Tuesday, so the order of 23:59 that arrived at 00:03 is missing in one day and replaces the
other. When the source is loaded again its load times change, and the same rows move to another run.

**Instead** choose by the time at which things happened, and look a few days further for what came late:

```sql
WHERE order_date = :day                                    -- decides
  AND ingestion_date BETWEEN :day AND :day + 3             -- only saves reading
```

A landing table that is itself cut by arrival may be copied by arrival.

With `twice`: `Table("raw.orders", partition=Day("ingestion_date"), event_time="ordered_at")`, and `lateness=days(3)`
on the output: a step then sees the rows of its day, whenever they arrived.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, given
from twice.audit.vocabulary import is_arrival_column, is_time_column

SEVERITY = Severity.WARNING
# A merge takes changes by arrival and is right: every key ends in its newest version.
_BY_KEY = frozenset({Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW})


def check(job: Job) -> Iterator[Finding]:
    """Look for filters on arrival in front of a target that is not cut by arrival."""
    for query, write in feeding(job):
        if write.mode in _BY_KEY or _kept_by_arrival(job, write):
            continue
        found = [bound for filter_ in query.filters for bound in bounds(filter_)]
        if any(is_time_column(bound.column) and not is_arrival_column(bound.column) for bound in found):
            continue
        for bound in found:
            if is_arrival_column(bound.column) and _chosen(bound.value) and not _passed_on(write, bound.column):
                yield finding(
                    __name__,
                    bound.place,
                    f"`{bound.column}` decides which rows reach {write.target.name or 'the table'}, so what arrived "
                    "late lands in another run than the rows it belongs to, and a reload of the source moves it "
                    "again",
                    instead="filter by the time at which it happened, and use the arrival only to read less",
                    with_twice='Table(…, partition=Day("ingestion_date"), event_time="…") with lateness=days(…) on '
                    "the output",
                )
                break


def _chosen(value: Expr) -> bool:
    """Return whether the run says how much: a parameter, or the clock."""
    return given(value) or (value.has("clock") and not value.columns() and not value.has("watermark"))


def _kept_by_arrival(job: Job, write: Write) -> bool:
    """Return whether the target itself is cut by arrival: its partition, or what is removed before."""
    names = [name for name, _ in write.partition]
    for other in (write, *(one for one in job.earlier(write) if one.mode is Mode.DELETE)):
        names += other.predicate.columns() if other.predicate is not None else ()
    return any(is_arrival_column(name) for name in names)


def _passed_on(write: Write, column: str) -> bool:
    """A copy that keeps the arrival, and is not cut by another date, is a landing table's neighbour."""
    if write.query is None or write.partition or write.predicate is not None:
        return False
    return not any(query.group_by for query in write.query.walk()) and any(
        one.name in {column, "*"} for one in write.query.columns
    )
