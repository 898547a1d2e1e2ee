"""The window has a start and no end.

The job takes everything from its start date on: `WHERE event_time >= :start`.

**On the second run** more has arrived in the meantime. The rerun of last Tuesday also loads Wednesday to today: the
same run gives another result each time it is repeated, rows of later days are written under this run's name, and a
backfill of thirty days loads the last day thirty times.

**Instead** give each window its end, excluded, so that windows touch and do not overlap:

```sql
WHERE event_time >= :window_start AND event_time < :window_end
```

With `twice` the input of a step is already cut to `[start, end)`; in SQL they are `:window_start` and `:window_end`.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Bound, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, given
from twice.audit.rules.windows import holes_in, names_in
from twice.audit.vocabulary import is_time_column

SEVERITY = Severity.WARNING
# A rebuild of everything since some day is not a window.
_REBUILDS = frozenset({Mode.OVERWRITE, Mode.CREATE})


def check(job: Job) -> Iterator[Finding]:
    """Look for lower bounds on a time that nothing closes."""
    for query, write in feeding(job):
        for bound in _bounds_of(query, incremental_only=job.dbt is not None):
            if (
                bound.op in {">", ">="}
                and is_time_column(bound.column)
                and given(bound.value)
                and not (write.mode in _REBUILDS and not _names_start(write, bound))
                and not _closed(write, bound.column)
            ):
                yield finding(
                    __name__,
                    bound.place,
                    f"`{bound.column}` has no upper bound, so a rerun of an old window also loads everything that "
                    f"came after it into {write.target.name or 'the table'}",
                    instead=f"add the end of the window: {bound.column} >= :window_start AND {bound.column} < "
                    ":window_end",
                    with_twice="the step's input is already cut to the window; in SQL :window_start and :window_end",
                )
                break


def _names_start(write: Write, bound: Bound) -> bool:
    """Return whether a rebuilt file or folder is called by the start of the window: then it is one of many."""
    holes = set(holes_in(write.target.name))
    return bool(holes & set(names_in(bound.value)))


def _bounds_of(query: Query, *, incremental_only: bool = False) -> Iterator[Bound]:
    """Yield the bounds of a query; in dbt a start for all runs says where history begins, and is not a window."""
    for filter_ in query.filters:
        if not incremental_only or id(filter_) in query.incremental_only:
            yield from bounds(filter_)


def _closed(write: Write, column: str) -> bool:
    """Return whether some filter on the way bounds the column from above, or pins another time."""
    queries = write.query.walk() if write.query is not None else iter(())
    found = [bound for query in queries for bound in _bounds_of(query)]
    return any(
        (bound.column == column and bound.op in {"<", "<=", "=", "in"})
        or (bound.op in {"=", "in"} and is_time_column(bound.column))
        or (bound.op in {"<", "<="} and is_time_column(bound.column))
        for bound in found
    )
