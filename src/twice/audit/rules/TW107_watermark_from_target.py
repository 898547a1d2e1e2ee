"""The job asks its own target how far it came.

`WHERE updated_at > (SELECT MAX(updated_at) FROM target)`, in dbt `… from {{ this }}`; the same as
`ORDER BY updated_at DESC LIMIT 1`, or handed to a function that fetches.

**On the second run** the answer is another one, because the first run already wrote. A run that died partway
has moved the maximum: the rest of its rows is never loaded. A row that arrives late, or commits late, is older than the
maximum and is never seen. An old day cannot be loaded again at all, and rows of the same instant are lost or, with
`>=`, loaded twice.

**Instead** ask for a window that is given from outside, and replace that window:

```sql
WHERE updated_at >= :window_start AND updated_at < :window_end
```

In dbt: `{{ var("start") }}` and `{{ var("end") }}`, or microbatches (`event_time`, `begin`, `batch_size`).

With `twice` the run's window says what to load, and the ledger knows which windows are done.

It is an error where rows are added without a key; with a key a rerun at least repeats nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Use, Write, same_table
from twice.audit.places import Place
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.appends import left_out
from twice.audit.rules.stored import lasting
from twice.audit.vocabulary import is_day_column, is_key_column

SEVERITY = Severity.ERROR
_LATER = frozenset({">", ">=", "<", "<="})
_FEW = 3


def check(job: Job) -> Iterator[Finding]:
    """Look for MAX over the target in what is read, directly or through a variable."""
    reported: set[int] = set()
    inside: set[int] = set()
    for write, place, column in (*_in_queries(job, inside), *_through_variables(job, inside)):
        # A partition overwrite with such a watermark destroys rows, which has its own code: TW312.
        if place.line in reported or write.mode is Mode.OVERWRITE_PARTITIONS:
            continue
        reported.add(place.line)
        adds = write.mode is Mode.APPEND and job.cleared_by(write) is None
        table = write.target.name or "the target"
        what = f"the newest `{column}`" if column else "the newest row"
        yield finding(
            __name__,
            place,
            f"each run starts after {what} in {table}, so rows that come late or that a broken run left out are never "
            "loaded, and no old window can be loaded again",
            severity=SEVERITY if adds else Severity.WARNING,
            instead="load a window that is given from outside: >= :window_start AND < :window_end",
            with_twice="twice run … --for DAY, and twice status for which days are done",
        )


def _asked_at(query: Query) -> set[int]:
    """Return the lines on which a sub-query asks for its maximum, which may stand below where it opens."""
    return {call.place.line for one in query.walk() for column in one.columns for call in column.expr.calls("max")}


def _in_queries(job: Job, inside: set[int]) -> Iterator[tuple[Write, Place, str]]:
    """Yield sub-queries of filters and joins; `inside` learns the lines on which they ask."""
    for write in job.writes:
        if write.query is None or not (lasting(write) or write.target.temporary):
            continue
        for query in write.query.walk():
            for filter_ in (*query.filters, *(source.on for source in query.sources if source.on is not None)):
                for node in filter_.walk():
                    if node.query is None:
                        continue
                    found = _maximum_of(job, node.query)
                    if found is not None:
                        inside |= _asked_at(node.query)
                        yield found[0], node.query.place if node.place.line == 1 else node.place, found[1]
            yield from _joined(job, query)
            yield from _periods(write, query)


def _periods(write: Write, query: Query) -> Iterator[tuple[Write, Place, str]]:
    """Yield days, months and files that are left out because the target already has some of their rows."""
    for filter_ in query.filters:
        for part in filter_.conjuncts():
            for inner in left_out(part):
                names = [column.name for column in inner.columns]
                of_target = any(same_table(table, write.target.name) for table in inner.tables())
                if names and of_target and all(is_day_column(name) and not is_key_column(name) for name in names):
                    yield write, part.place if part.place.line > 1 else inner.place, ", ".join(names)


def _joined(job: Job, query: Query) -> Iterator[tuple[Write, Place, str]]:
    """Yield comparisons with a maximum that is joined to every row: FROM orders, newest WHERE updated_at > newest.m."""
    asked = (*query.filters, *(source.on for source in query.sources if source.on is not None))
    later = [bound for part in asked for bound in part.walk() if bound.kind == "op" and bound.name in _LATER]
    for source in query.sources:
        per_key = source.query is not None and bool(source.query.group_by)
        found = _maximum_of(job, source.query, per_key=per_key) if source.query and source.how != "anti" else None
        if found is None or source.query is None or len(source.query.columns) > _FEW or source.query.branches:
            continue
        names = {column.name for column in source.query.columns}
        for bound in later:
            sides = [arg for arg in bound.args if arg.kind == "column"]
            if any(arg.name in names and arg.table == source.alias for arg in sides):
                yield found[0], bound.place, found[1]


def _maximum_of(job: Job, query: Query, *, per_key: bool = False) -> tuple[Write, str] | None:
    """Return the written table whose maximum a sub-query asks for, of all rows or of those of each key."""
    if query.group_by and not per_key:
        return None
    columns = [name for column in query.columns for name in _maximum(column.expr)]
    if not columns:
        columns = _maximum_below(query)
    if not columns:
        return None
    tables = query.tables()
    for write in job.writes:
        if lasting(write) and write.query is not None and any(same_table(table, write.target.name) for table in tables):
            return write, columns[0]
    return None


def _maximum_below(query: Query) -> list[str]:
    """Return the same of the first query below that has one; what a filter asks for is looked at by itself."""
    filtered = {id(one) for part in query.filters for node in part.walk() if node.query for one in node.query.walk()}
    for inner in query.walk():
        found = [name for column in inner.columns for name in _maximum(column.expr)]
        if found and id(inner) not in filtered:
            return found
    return []


def _maximum(expr: Expr) -> Iterator[str]:
    for call in expr.calls("max"):
        yield next(iter(call.columns()), "")


def _through_variables(job: Job, told: set[int]) -> Iterator[tuple[Write, Place, str]]:
    for use in job.used("watermark", "filter", "input", "join", "predicate", "request", "argument"):
        write = _written(job, use)
        if write is not None and use.place.line not in told:
            yield write, use.place, use.column


def _written(job: Job, use: Use) -> Write | None:
    """Return the write into the table that the watermark was read from."""
    table = use.detail or use.name
    for write in job.writes:
        if lasting(write) and same_table(table.lower(), write.target.name):
            return write
    return None
