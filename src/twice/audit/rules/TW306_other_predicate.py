"""What is deleted is not what is inserted.

Delete and insert repeat safely when they speak of the same rows. If the delete takes one day and the insert brings
three, the second run doubles two of them; if the delete also asks for a region and the insert does not, the other
regions double; if one goes by arrival date and the other by business date, late rows double or disappear.

An insert that is narrower than the delete is fine and not reported.

**Instead**, write the window once and use it on both sides:

    -- SQL
    DELETE FROM t WHERE order_date >= :start AND order_date < :end;
    INSERT INTO t SELECT … WHERE order_date >= :start AND order_date < :end;
    # Spark
    window = f"order_date = '{day}'"
    df.where(window).write.format("delta").mode("overwrite").option("replaceWhere", window).saveAsTable("t")
    # twice
    Table("…", partition=Day("order_date"), …): the step's rows must lie in the run's window, or nothing is published
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Bound, Expr, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, removed_before
from twice.audit.rules.windows import is_given, same_value, shape
from twice.audit.vocabulary import is_key_column, is_time_column

SEVERITY = Severity.ERROR
_REMOVE_SOME = frozenset({Mode.DELETE, Mode.DROP_PARTITION})


def check(job: Job) -> Iterator[Finding]:
    """Compare the conditions of each delete with those of the insert that follows."""
    for write in job.writes:
        if is_record(write.target) or write.query is None:
            continue
        if write.mode is Mode.REPLACE_WHERE:
            predicate, place = write.predicate, write.place
        elif write.mode in {Mode.APPEND, Mode.OVERWRITE_PARTITIONS}:
            before = removed_before(job, write)
            predicate = before.predicate if before is not None and before.mode in _REMOVE_SOME else None
            place = before.place if before is not None else write.place
        else:
            continue
        said = _difference(list(bounds(predicate)), write)
        if said:
            yield finding(
                __name__,
                place,
                f"what is removed here from {write.target.name or 'the table'} is not what "
                f"line {write.place.line} writes: {said}",
                instead="give delete and insert the same condition on the same column",
                with_twice='Table("…", partition=Day("…"), …): rows outside the run\'s window are refused',
            )


def _difference(removed: list[Bound], write: Write) -> str:
    if not removed or write.query is None:
        return ""
    brought = [bound for query in write.query.walk() for filter_ in query.filters for bound in bounds(filter_)]
    if not brought:
        return ""
    by_column: dict[str, list[Bound]] = {}
    for bound in brought:
        by_column.setdefault(bound.column, []).append(bound)
    for bound in removed:
        same = by_column.get(bound.column)
        if same and _is_open(bound, removed) and any(one.op in {"<", "<="} and is_given(one.value) for one in same):
            return f"everything from one {bound.column} on is removed, and only up to another one is inserted"
        said = _wider(bound, same) if same else _absent(bound, removed, by_column, write)
        if said:
            return said
    return ""


def _is_open(bound: Bound, removed: list[Bound]) -> bool:
    """Return whether a delete takes everything after a moment, so that an old window takes the newer ones along."""
    return bound.op in {">", ">="} and not any(
        one.column == bound.column and one.op in {"<", "<=", "=", "in"} for one in removed
    )


def _wider(removed: Bound, brought: list[Bound]) -> str:
    """Return how the insert reaches further on the same column, as far as that is certain."""
    column = removed.column
    if any(one.op == removed.op and same_value(one.value, removed.value) for one in brought):
        return ""
    if removed.op == "=" and not any(one.op in {"=", "in", "<", "<="} for one in brought):
        if any(is_given(one.value) for one in brought):
            return f"one {column} is removed and everything from one on is inserted"
        return ""
    if removed.op != "=":
        return _further(removed, brought)
    equal = [one for one in brought if one.op == "="]
    if equal and all(_related(one.value, removed.value) for one in equal):
        return f"another {column} is removed than inserted"
    return ""


def _further(removed: Bound, brought: list[Bound]) -> str:
    """Return the reason if a delete ends before the insert does."""
    since = [one for one in brought if one.op in {">", ">="}]
    if removed.op not in {"<", "<="} or not is_given(removed.value) or len(since) < len(brought):
        return ""
    if not any(is_given(one.value) for one in since):
        return ""
    return f"only up to one {removed.column} is removed, and everything from another one on is inserted"


def _related(one: Expr, other: Expr) -> bool:
    """Return whether two values are computed from the same parameter, so that they can be compared."""
    left, right = shape(one), shape(other)
    return left != right and (left in right or right in left)


def _absent(bound: Bound, removed: list[Bound], by_column: dict[str, list[Bound]], write: Write) -> str:
    """Return the reason if the insert neither restricts a column of the delete nor sets it to the value."""
    written = _written(write, bound.column)
    if written is None or written.kind != "column" or written.name != bound.column:
        return _open_behind(bound, written, by_column)
    if is_time_column(bound.column):
        others = [
            name
            for name, found in by_column.items()
            if is_time_column(name) and any(one.op == bound.op and same_value(one.value, bound.value) for one in found)
        ]
        return f"rows are removed by {bound.column} and inserted by {others[0]}" if others else ""
    if _is_one_of_many(bound, removed, by_column):
        return f"one {bound.column} is removed, whichever rows are inserted"
    shared = [one for one in removed if one.column in by_column]
    if bound.op == "=" and shared:
        return f"the delete asks for one {bound.column} and the insert for none"
    return ""


def _is_one_of_many(bound: Bound, removed: list[Bound], by_column: dict[str, list[Bound]]) -> bool:
    """Return whether a delete names one fixed row, and the insert brings a window of rows by another column."""
    fixed = bound.op == "=" and bound.value.kind == "literal" and is_key_column(bound.column)
    dated = any(is_given(one.value) for found in by_column.values() for one in found)
    return fixed and dated and not any(one.column in by_column for one in removed)


def _open_behind(removed: Bound, written: Expr | None, by_column: dict[str, list[Bound]]) -> str:
    """Return the reason if the column is computed from another one, which is inserted from a given date on."""
    for name in written.columns() if written is not None and removed.op == "=" else ():
        found = by_column.get(name, [])
        if found and is_time_column(name) and all(one.op in {">", ">="} and is_given(one.value) for one in found):
            return f"one {removed.column} is removed and everything from one {name} on is inserted"
    return ""


def _written(write: Write, column: str) -> Expr | None:
    """Return what the insert puts into a column of the target; for `SELECT *` the column itself."""
    query = write.query
    if query is None:
        return None
    if write.columns and column in write.columns:
        position = write.columns.index(column)
        stars = any(one.name == "*" for one in query.columns)
        return query.columns[position].expr if not stars and position < len(query.columns) else None
    for one in query.columns:
        if one.name == column:
            return one.expr
    if not query.columns or any(one.name == "*" or one.expr.kind == "star" for one in query.columns):
        return Expr("column", column)
    return None
