"""Some rows are stored, and nothing says which.

`LIMIT` or `TOP` without `ORDER BY`, `df.limit(n)`, and the result is written.

**On the second run** the engine may give other rows: it takes those that it finds first. The same input fills the
table with other customers.

**Instead** order by something unique before cutting:

```sql
SELECT customer_id FROM customers ORDER BY customer_id LIMIT 100
```

With `twice` write the same in the step.

**Not meant** are limits that only show, `LIMIT 0`, tests for existence, and limits of dbt's development target. A
limit under `{% if var("is_test_run", default=true) %}` is meant: without another value, what it keeps is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding

SEVERITY = Severity.WARNING
_ONE_ROW = (
    "count",
    "sum",
    "max",
    "min",
    "avg",
    "max_by",
    "min_by",
    "stddev",
    "count_distinct",
    "approx_count_distinct",
)


def check(job: Job) -> Iterator[Finding]:
    """Look at limits on the way into a table."""
    for query, write in feeding(job):
        if query.limit is None or write.mode is Mode.UPDATE or "pandas" in {query.language, write.via}:
            continue
        if query.limit.kind != "literal" or _only_for_trying(job, query.limit.place.line):
            continue
        if query.limit.value in {0, "0"} or query.limit.name == "0" or _ordered(query) or _one_row(query):
            continue
        yield finding(
            __name__,
            query.limit.place,
            "nothing says which rows the limit keeps, so a rerun over the same input may store others in "
            f"{write.target.name or 'the table'}",
            instead="ORDER BY a unique column before the limit",
            with_twice="order by a unique column in the step before limit()",
        )


def _only_for_trying(job: Job, line: int) -> bool:
    """`if debug: df = df.limit(100)`."""
    return any(_TRYING.match(job.line(number)) for number in (line - 1, line))


_TRYING = re.compile(r"\s*(el)?if\b.*(debug|dev|test|sample|limit|local|dry|small|quick)", re.IGNORECASE)


def _ordered(query: Query) -> bool:
    """Return whether the rows are in an order, also that of the query right below."""
    while True:
        if query.order_by:
            return True
        plain = not (query.filters or query.group_by or query.distinct or query.branches)
        below = [source.query for source in query.sources]
        if not plain or len(below) != 1 or below[0] is None:
            return False
        query = below[0]


def _one_row(query: Query) -> bool:
    if not query.sources and not query.branches:
        return True
    if query.group_by:
        return False
    return bool(query.columns) and all(any(True for _ in one.expr.calls(*_ONE_ROW)) for one in query.columns)
