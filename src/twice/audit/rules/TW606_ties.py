"""The newest row is chosen by an order that has ties.

`row_number() … = 1` (or `QUALIFY`) over an order in which several rows of a group are equal: a date, the partition's
own key, a constant, a status. The ten best by a sum or a count are such a choice too. One timestamp alone is reported
as `info`, because two changes may carry the same; the time of a load, which all rows of a delivery share, as a warning.

**On the second run** rows that are equal may change places, so another one becomes number one: the older version
after a compaction, the newer one after the next. The result differs though the input is the same.

**Instead** order until it is unique: a timestamp and then an id, a version, a file offset.

```sql
ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY updated_at DESC, delivery_no DESC) = 1
```

With `twice`: `write=Merge(version="updated_at")`: equal versions with different content are an error that names the
key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from twice.audit.expressions import Expr, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, resolved
from twice.audit.vocabulary import is_arrival_column, is_audit_column, is_day_column, is_instant_column

SEVERITY = Severity.WARNING
_TO_DAY = frozenset({"date", "to_date", "cast_date", "trunc", "date_trunc", "year", "month", "day"})
# Called a date, but mostly a timestamp, or a version of which there is one a day.
_TOUCHED = re.compile(
    r"(modif|updat|creat|chang|edit|touch|last|synced|extracted|effective|valid|version|snapshot|as_?of|start|end)",
    re.IGNORECASE,
)
_FLAG = re.compile(
    r"^(is|has)_|(^|_)(status|type|flag|priority|active|deleted|state|country|region|category|source)$", re.IGNORECASE
)

# One value for all that a job fetched at once.
_FETCHED = re.compile(
    r"(^|_)(captured|fetched|scraped|downloaded|collected|imported|staged|snapshotted|crawled|polled|pulled|exported"
    r"|uploaded)_*(at|on|ts|dt|date|time|timestamp|datetime)$",
    re.IGNORECASE,
)
_TOTALS = frozenset({"sum", "count", "count_distinct", "approx_count_distinct"})


def check(job: Job) -> Iterator[Finding]:
    """Look at the windows of which only the first row is kept."""
    seen: set[int] = set()
    queries = list(feeding(job))
    kept = {name for query, _ in queries for name in _compared(query, _keeps_one)}
    few = {name for query, _ in queries for name in _compared(query, _keeps_few)} - kept
    for query, write in queries:
        for name, window in _numbers(query):
            direct = any(window is node for filter_ in query.filters for node in filter_.walk())
            if id(window) in seen or not (direct or name in kept or name in few):
                continue
            seen.add(id(window))
            why, severity = _ties(window, query, write, only_totals=name in few), SEVERITY
            if not why and name not in few and (why := _one_moment(window)):
                severity = SEVERITY if _of_load(window) else Severity.INFO
            if why:
                by = ", ".join(column for part in window.partition_by for column in part.columns()) or "the table"
                yield finding(
                    __name__,
                    window.place,
                    f"rows of one {by} are equal in this order ({why}), so a rerun over the same input may keep "
                    f"another one in {write.target.name or 'the table'}",
                    instead=f"order until it is unique: PARTITION BY {by} ORDER BY updated_at DESC, a version or id",
                    with_twice='write=Merge(version="updated_at"): ties with different content are an error',
                    severity=severity,
                )


def _one_moment(window: Expr) -> str:
    """Return why a single timestamp may not decide: two changes of one row can carry the same."""
    if len(window.order_by) != 1 or not window.partition_by:
        return ""
    columns = window.order_by[0].expr.columns()
    if len(columns) != 1 or not _is_moment(columns[0]):
        return ""
    return f"two of them may have the same {columns[0]}"


def _is_moment(name: str) -> bool:
    return is_instant_column(name) or is_arrival_column(name) or is_audit_column(name) or bool(_MOMENT.search(name))


_MOMENT = re.compile(
    r"(updated|modified|changed|created|last_?(update|change|modified))_?(utc|on|date|dt|time)?$"
    r"|(^|_)(start|begin|started|occurred)(_?(date|dt|day))?$",
    re.IGNORECASE,
)


def _of_load(window: Expr) -> bool:
    """Return whether the order is by the time of a load, which is the same for all rows of one delivery."""
    return is_arrival_column(window.order_by[0].expr.columns()[0])


def _numbers(query: Query) -> Iterator[tuple[str, Expr]]:
    for column in query.columns:
        yield from ((column.name, node) for node in column.expr.calls("row_number") if node.kind == "window")
    for filter_ in query.filters:
        yield from (("", node) for node in filter_.calls("row_number") if node.kind == "window" and _keeps_few(filter_))


def _compared(query: Query, keeps: Callable[[Expr], bool]) -> Iterator[str]:
    joined = [source.on for source in query.sources if source.on is not None]
    for filter_ in (*query.filters, *joined):
        for part in filter_.conjuncts():
            if keeps(part):
                yield from (arg.name for arg in part.args if arg.kind == "column")


def _keeps_one(part: Expr) -> bool:
    limits = {"=": "1", "<=": "1", "<": "2"}
    return part.kind == "op" and any(
        arg.kind == "literal" and str(arg.value if arg.value is not None else arg.name) == limits.get(part.name)
        for arg in part.args
    )


def _keeps_few(part: Expr) -> bool:
    """Return whether it keeps the first rows of a group, one or several: rn <= 10."""
    if part.kind != "op" or part.name not in {"=", "<", "<="} or len(part.args) != 2:
        return False
    return part.args[1].kind == "literal" and str(part.args[1].value).isdigit()


def _ties(window: Expr, query: Query, write: Write, *, only_totals: bool = False) -> str:
    """Return why the order cannot decide, or nothing if it may."""
    own = {name for part in window.partition_by for name in part.columns()}
    reasons = [
        _is_total(order.expr, query)
        or (
            ""
            if only_totals
            else _given_anew(order.expr) or _same_for_all(order.expr, query, write) or _cannot_decide(order.expr, own)
        )
        for order in window.order_by
    ]
    if not reasons:
        return "" if only_totals else "there is none"
    return next(iter(reasons)) if all(reasons) else ""


def _is_total(term: Expr, query: Query) -> str:
    """Return why a sum or a count does not decide: groups of the same size are equal."""
    made = query.definition(term.name) if term.kind == "column" else term
    below = next((source.query for source in query.sources if source.query is not None), None)
    if made is not None and made.kind == "column" and below is not None:
        made = below.definition(made.name)
    if made is None or made.kind != "call" or made.name not in _TOTALS:
        return ""
    return f"{term.name} is a {'sum' if made.name == 'sum' else 'count'}"


def _same_for_all(term: Expr, query: Query, write: Write) -> str:
    """Return why all rows of a run agree: the run filters one value, or fills the column from the clock."""
    if term.kind != "column":
        return ""
    pinned = {
        bound.column for one in query.walk() for filter_ in one.filters for bound in bounds(filter_) if bound.op == "="
    }
    if term.name in pinned:
        return f"the run reads one {term.name}"
    made = resolved(query, term.name) or (resolved(write.query, term.name) if write.query is not None else None)
    clock = made is not None and made.kind == "call" and made.has("clock") and not made.columns()
    return f"{term.name} is the time of the run" if clock else ""


def _given_anew(term: Expr) -> str:
    """Return why a number that Spark gives, or a random one, does not decide: on a rerun it is another."""
    return "the numbers are given again in every run" if term.has("counter") or term.has("random") else ""


def _cannot_decide(term: Expr, own: set[str]) -> str:
    columns = term.columns()
    if not columns:
        # A parameter may stand for a column.
        constant = term.is_constant or (term.query is not None and not term.query.sources)
        return "a constant" if constant else ""
    if set(columns) <= own:
        return f"{columns[0]} is what the group is made of"
    if term.kind == "call" and term.name in _TO_DAY:
        return f"{columns[0]} is cut to a date"
    return _coarse(term, columns)


def _coarse(term: Expr, columns: Sequence[str]) -> str:
    """Return why many rows have the same value of a column, by its name."""
    if term.kind == "column" and is_day_column(term.name) and not _TOUCHED.search(term.name):
        return f"{term.name} is a date"
    if term.kind == "column" and (is_arrival_column(term.name) or _FETCHED.search(term.name)):
        return f"all rows of one load have the same {term.name}"
    if term.kind in {"column", "case"} and all(_FLAG.search(name) for name in columns):
        return f"{columns[0]} has few values"
    return ""
