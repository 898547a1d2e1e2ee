"""The window includes both of its ends.

`BETWEEN :start AND :end`, or `>= :start AND <= :end`, on a column that holds instants.

**On the second run**, and already in the next window, what happened exactly at the boundary is loaded again: midnight
belongs to Monday and to Tuesday. Which of the two runs last decides where the row ends, or it is counted twice.

**Instead** exclude the end:

```sql
WHERE event_time >= :window_start AND event_time < :window_end
```

Whole dates may be compared with `BETWEEN`: a date is in one day only.

With `twice` windows are half open everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Bound, Expr, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, given
from twice.audit.vocabulary import is_instant_column

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look for windows over instants that include start and end."""
    told: set[str] = set()
    for query, write in feeding(job):
        found = [bound for filter_ in query.filters for bound in bounds(filter_)]
        starts = {bound.column for bound in found if bound.op == ">="}
        reported: set[str] = set()
        for bound in found:
            if bound.op == "<=" and bound.column in starts - reported and _is_window_end(bound):
                reported.add(bound.column)
                told.add(write.target.name)
                yield finding(
                    __name__,
                    bound.place,
                    f"a row with `{bound.column}` exactly at the end of the window is loaded into "
                    f"{write.target.name or 'the table'} by this run and by the next one",
                    instead=f"exclude the end: {bound.column} >= :window_start AND {bound.column} < :window_end",
                    with_twice="windows are half open: [start, end)",
                )

    yield from _removed(job, told)


def _removed(job: Job, told: set[str]) -> Iterator[Finding]:
    """Look at deletes before an insert whose own window is not seen: they take the first rows of the next window."""
    for write in job.writes:
        if write.mode is not Mode.DELETE or write.target.name in told:
            continue
        if not any(one.mode is Mode.APPEND for one in job.later(write)):
            continue
        found = list(bounds(write.predicate))
        starts = {bound.column for bound in found if bound.op == ">="}
        for bound in found:
            if bound.op == "<=" and bound.column in starts and _is_window_end(bound):
                yield finding(
                    __name__,
                    bound.place,
                    f"a row with `{bound.column}` exactly at the end of the window is removed from "
                    f"{write.target.name or 'the table'} by this run, although it belongs to the next one",
                    instead=f"exclude the end: {bound.column} >= :window_start AND {bound.column} < :window_end",
                    with_twice="windows are half open: [start, end)",
                )
                break


def _is_window_end(bound: Bound) -> bool:
    if bound.cast_to_date or not is_instant_column(bound.column):
        return False
    return given(bound.value) and not _last_moment(bound.value)


def _last_moment(value: Expr) -> bool:
    """`… 23:59:59` is meant as the last moment of the window, not as the first of the next."""
    return any("23:59" in f"{node.text} {node.name} {node.value}" for node in value.walk())
