"""A row number over an order with ties is the key.

`ROW_NUMBER() OVER (ORDER BY customer_name) AS customer_sk`, or `ORDER BY (SELECT NULL)`.

**On the second run** rows that are equal in the order may change places, so the same row gets another key without any
change in the data. And one new row in the middle moves the number of every row behind it: a merge that numbers its
rows from 1 on gives known rows another key, or new rows one that is taken.

**Instead** hash what identifies the row:

```sql
md5(concat_ws('|', country, customer_no)) AS customer_sk
```

If it must be a number, order by something unique, and know that it moves when rows are added.

With `twice`: `key_of("country", "customer_no")`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.appends import known_by
from twice.audit.rules.stored import emptied_whole, feeding, stored_columns
from twice.audit.vocabulary import is_day_column, is_key_column

SEVERITY = Severity.ERROR
_NUMBERS = ("row_number", "rank", "dense_rank")
_DECIDES = re.compile(
    r"(^|_)(id|key|no|nr|num|number|code|uuid|guid|sk|pk|nk|bk|seq|sequence|hash|offset|isbn|sku|url|path)$|[a-z](Id|Key|No|Code|Number)$"
)

_HOLE = re.compile(r"\{[^}]*\}")
_CALENDAR = re.compile(r"date|calendar|day|time|period", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Look at the numbers that are stored under the name of a key."""
    seen: set[int] = set()
    for query, write in feeding(job):
        for column, expr in _named(query, write):
            for window in expr.calls("row_number"):  # equal rows have the same rank
                is_key = is_key_column(_HOLE.sub("x", column)) or column in write.key
                if window.kind != "window" or id(window) in seen or not is_key:
                    continue
                if (query is not write.query and _only_filters(query, column, write)) or _left_behind(write, column):
                    continue
                seen.add(id(window))
                # Numbered on from the highest key of the table: that is TW202.
                if expr.has("sequence") or expr.has("watermark") or _calendar(window, write):
                    continue
                if _begins_again(job, expr, window, write):
                    yield _renumbered(window, column, write)
                    continue
                if _decided(window, query):
                    continue
                order = ", ".join(name for term in window.order_by for name in term.expr.columns()) or "nothing"
                yield finding(
                    __name__,
                    window.place,
                    f"rows that are equal in {order} may change places, so a rerun gives the same row of "
                    f"{write.target.name or 'the table'} another `{column}`",
                    instead="hash what identifies the row: md5(concat_ws('|', …))",
                    with_twice="key_of(…) of the columns that identify the row",
                    severity=Severity.WARNING if _identified(window) else None,  # it may be unique all the same
                )


def _begins_again(job: Job, expr: Expr, window: Expr, write: Write) -> bool:
    """Return whether rows are numbered from 1 on in each run, beside rows that have their numbers already."""
    beside = write.mode in {Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW} or (
        write.mode is Mode.APPEND and known_by(write, job) is not None
    )
    if not beside or window.partition_by or emptied_whole(job, write):
        return False
    while expr.kind == "call" and expr.name.startswith("cast") and expr.args:
        expr = expr.args[0]
    return expr is window


def _renumbered(window: Expr, column: str, write: Write) -> Finding:
    return finding(
        __name__,
        window.place,
        f"every run numbers its rows from 1 on, so rows that are in {write.target.name or 'the table'} get another "
        f"`{column}`, or new ones get one that is taken",
        instead="hash what identifies the row: md5(concat_ws('|', …)), and leave the key out of the update",
        with_twice="key_of(…) of the columns that identify the row",
    )


def _named(query: Query, write: Write) -> Iterator[tuple[str, Expr]]:
    """Yield columns by the name under which they are stored."""
    if query is write.query:
        yield from ((stored.column, stored.expr) for stored in stored_columns(write))
    else:
        yield from ((column.name, column.expr) for column in query.columns)


def _only_filters(query: Query, column: str, write: Write) -> bool:
    """Return whether the number only chooses rows (`= 1`), or is left behind by every query that reads it."""
    readers = [
        one
        for one in (write.query.walk() if write.query is not None else ())
        if any(source.query is query for source in one.sources)
    ]
    return bool(readers) and all(_first_only(one, column) or not _hands_on(one, column) for one in readers)


def _left_behind(write: Write, column: str) -> bool:
    """Return whether a merge neither stores the number nor finds its rows by it."""
    if write.merge is None or not write.merge.whens or column in write.key:
        return False
    stored = [value for when in write.merge.whens for _, value in when.assignments]
    return not any(when.all_columns for when in write.merge.whens) and not any(
        column in value.columns() for value in stored
    )


def _first_only(query: Query, column: str) -> bool:
    return any(
        part.kind == "op"
        and part.name == "="
        and {(arg.kind, str(arg.name or arg.value)) for arg in part.args} == {("column", column), ("literal", "1")}
        for filter_ in query.filters
        for part in filter_.conjuncts()
    )


def _hands_on(query: Query, column: str) -> bool:
    """Return whether a query selects a column, by its name or with a star."""
    return not query.columns or any(
        one.name in {"*", column} or one.expr.kind == "star" or column in one.expr.columns() for one in query.columns
    )


def _calendar(window: Expr, write: Write) -> bool:
    """A table of dates holds each date once."""
    columns = [name for term in window.order_by for name in term.expr.columns()]
    return bool(columns) and any(is_day_column(name) for name in columns) and bool(_CALENDAR.search(write.target.last))


def _decided(window: Expr, query: Query) -> bool:
    """Return whether the order is unique: it holds an identifier, or every row is there once in these columns."""
    columns = {name for term in window.order_by for name in term.expr.columns()}
    columns |= {name for part in window.partition_by for name in part.columns()}
    if _identified(window):
        return not _several_each(query, columns)
    for one in (query, *(source.query for source in query.sources if source.query is not None)):
        names = {column.name for column in one.columns if not any(True for _ in column.expr.calls(*_NUMBERS))}
        if one.distinct and names and "*" not in names and names <= columns:
            return True
        grouped = {name for expr in one.group_by for name in expr.columns()}
        if grouped and grouped <= columns:
            return True
        if one.distinct_on and set(one.distinct_on) <= columns:
            return True
    return False


def _identified(window: Expr) -> bool:
    """Return whether the order holds what looks like an identifier by its name."""
    ordered = [name for term in window.order_by for name in term.expr.columns() or (term.expr.name,)]
    return any(_DECIDES.search(name) for name in ordered)


def _several_each(query: Query, columns: set[str]) -> bool:
    """Return whether further columns than the order distinguish the numbered rows: DISTINCT code, name, city."""
    below: Query | None = query
    for _ in range(5):
        if below is None or below.group_by or below.distinct_on or (below is not query and below.filters):
            return False
        parts = below.branches if below.branches and not below.union_all else [below] if below.distinct else []
        names = {column.name for part in parts for column in part.columns if not _numbers(column.expr)}
        if names:
            return bool(names - columns) and bool(columns & names) and "*" not in names
        inner = [source.query for source in below.sources]
        below = inner[0] if len(inner) == 1 else None
    return False


def _numbers(expr: Expr) -> bool:
    return any(True for _ in expr.calls(*_NUMBERS))
