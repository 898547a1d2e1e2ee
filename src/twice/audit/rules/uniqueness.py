"""Whether a query gives at most one row per key, as far as it can be read from it."""

from __future__ import annotations

from twice.audit.expressions import Expr
from twice.audit.queries import Query

_NUMBERS = frozenset({"row_number", "rank", "dense_rank"})


def one_row_per(query: Query | None) -> frozenset[str] | None:
    """Return the columns of which a query keeps one row each, or None if it does not say so.

    Looks through plain selections down to the de-duplication: GROUP BY, DISTINCT ON, dropDuplicates, row_number = 1.
    An empty set means one row per something that is not readable (SELECT DISTINCT, a grouping by position).
    """
    for _ in range(50):
        if query is None or query.branches:
            break
        found = kept_by(query)
        if found is not None:
            return found
        inner = [source.query for source in query.sources if source.how == "from"]
        query = inner[0] if inner else None
    return frozenset() if query is not None and query.branches and not query.union_all else None


def kept_by(query: Query) -> frozenset[str] | None:
    """Return the columns of which this query itself keeps one row each, whatever is below it."""
    if query.distinct_on is not None:
        return frozenset(name.lower() for name in query.distinct_on)
    numbered = _first_of_each(query)
    if numbered is not None:
        return numbered
    if query.group_by or query.grouped:
        return _grouped(query)
    if query.distinct:
        return frozenset()
    return None


def _grouped(query: Query) -> frozenset[str]:
    """Return the names of the grouping columns as the query hands them on."""
    names: set[str] = set()
    for expr in query.group_by:
        if expr.kind == "literal" and str(expr.name).isdigit():
            position = int(str(expr.name)) - 1
            if position < len(query.columns):
                names.add(query.columns[position].name)
            continue
        handed = next((column.name for column in query.columns if column.expr == expr), "")
        renamed = [column.name for column in query.columns if _same_column(column.expr, expr)]
        names.add(handed or (renamed[0] if renamed else expr.name))
    return frozenset(name for name in names if name)


def _same_column(one: Expr, other: Expr) -> bool:
    return one.kind == "column" and other.kind == "column" and one.name == other.name


def _first_of_each(query: Query) -> frozenset[str] | None:
    """Return the PARTITION BY of `row_number() … = 1`, in QUALIFY or over a numbered sub-query."""
    for filter_ in query.filters:
        for part in filter_.conjuncts():
            if part.kind != "op" or part.name not in {"=", "<", "<="} or len(part.args) != 2:
                continue
            for side, other in (part.args, part.args[::-1]):
                if other.kind != "literal" or str(other.name or other.value) not in {"1", "2"}:
                    continue
                window = _numbering(query, side)
                if window is not None:
                    columns = [one.name for one in window.partition_by if one.kind == "column"]
                    return frozenset(columns) if len(columns) == len(window.partition_by) else frozenset()
    return None


def matches_first_only(query: Query, on: Expr | None) -> bool:
    """Return whether a merge takes only the first row of each group: ON t.id = s.id AND s.rn = 1."""
    parts = [part for part in on.conjuncts() if part.kind == "op" and part.name == "="] if on is not None else []
    first = [part for part in parts if any(str(arg.value) == "1" for arg in part.args)]
    return any(arg.kind == "column" and _numbering(query, arg) is not None for part in first for arg in part.args)


def _numbering(query: Query, expr: Expr) -> Expr | None:
    if expr.kind == "column":
        found = query.definition(expr.name)
        if found is None or found.kind == "column":
            found = next(
                (_defined(source.query, expr.name) for source in query.sources if source.query is not None), None
            )
        if found is None:
            return None
        expr = found
    return expr if expr.kind == "window" and expr.name in _NUMBERS else None


def _defined(query: Query | None, name: str) -> Expr | None:
    return query.definition(name) if query is not None else None
