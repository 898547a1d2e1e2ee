"""Where clocks, random numbers and other unsteady values count: in a filter, a key, a stored column, a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from twice.audit.expressions import Expr, Origin
from twice.audit.model import Context, Job, Mode, Use, Write, same_table
from twice.audit.queries import Query
from twice.audit.vocabulary import is_audit_column, is_key_column, is_time_column

_COALESCE = frozenset({"coalesce", "nvl", "ifnull", "isnull", "nvl2", "if", "iff"})


def classify(job: Job) -> Iterator[Use]:
    """Yield the uses of all unsteady values in the job's statements and queries, each once."""
    seen: set[tuple[object, ...]] = set()
    for use in _all(job):
        mark = (use.origin, use.context, use.column, use.used_at, id(use.write))
        if mark not in seen:
            seen.add(mark)
            yield use


def _all(job: Job) -> Iterator[Use]:
    done: set[int] = set()
    for write in job.writes:
        yield from _of_write(job, write, done)
    for query in job.queries:
        yield from _of_query(query, None, done, None)


def _of_write(job: Job, write: Write, done: set[int]) -> Iterator[Use]:
    if write.target.expr is not None:
        yield from _uses(write.target.expr, "target", write)
    for column, value in write.partition:
        if value is not None:
            yield from _uses(value, "partition", write, column=column)
    if write.predicate is not None:
        retention = write.mode in {Mode.DELETE, Mode.DROP_PARTITION} and _is_retention(job, write)
        yield from _uses(write.predicate, "retention" if retention else "predicate", write)
    for column, value in write.assignments:
        yield from _uses(value, _column_context(column, write), write, column=column)
    if write.merge is not None:
        if write.merge.on is not None:
            yield from _uses(write.merge.on, "key", write)
        for when in write.merge.whens:
            if when.condition is not None:
                yield from _uses(when.condition, "filter", write)
            for column, value in when.assignments:
                detail = "insert only" if when.action == "insert" else ""
                context = _column_context(column, write)
                if detail and context == "key" and _begins_version(column, write):
                    context = "stored"
                yield from _uses(value, context, write, column=column, detail=detail)
    if write.query is not None:
        yield from _of_query(write.query, write, done, None)


def _begins_version(column: str, write: Write) -> bool:
    """Return whether a new version begins now, while the source takes the beginning of a known one from the table."""
    return is_time_column(column) and any(same_table(name, write.target.name) for name in write.sources)


def handed(expr: Expr, name: str) -> list[Use]:
    """Return the uses in what a procedure is called with."""
    return list(_uses(expr, "argument", None, detail=name))


def _is_retention(job: Job, write: Write) -> bool:
    """A delete of what is older than the clock says, with no insert of the same rows behind it."""
    if write.predicate is None or any(other.adds_rows() for other in job.later(write)):
        return False
    for part in write.predicate.conjuncts():
        if part.kind == "op" and part.name in {"<", "<="} and len(part.args) == 2 and part.args[1].has("clock"):
            return True
        if part.kind == "op" and part.name in {">", ">="} and len(part.args) == 2:
            if any(node.kind == "column" for node in part.args[0].walk()) and part.args[0].has("clock"):
                return True  # DATEDIFF(day, created, GETDATE()) > 30
            if part.args[0].has("clock") and not part.args[1].has("clock"):
                return True
    return False


def _column_context(column: str, write: Write | None) -> Context:
    if write is not None:
        if any(column == name for name, _ in write.partition):
            return "partition"
        if column in write.key:
            return "key"
    if is_audit_column(column) or column.startswith("{"):  # a composed name: what it holds is not known
        return "audit"
    return "key" if is_key_column(column) else "stored"


def _of_query(
    query: Query, write: Write | None, done: set[int], wanted: set[str] | None, hidden: frozenset[str] = frozenset()
) -> Iterator[Use]:
    """Yield the uses in a query; the query around it takes the columns `wanted` (None: all) but those `hidden`."""
    if id(query) in done:
        return
    done.add(id(query))
    for branch in query.branches:
        yield from _of_query(branch, write, done, wanted, hidden)
    for column in query.columns:
        if wanted is not None and column.name and column.name not in wanted and column.name != "*":
            continue
        context = _column_context(column.name, write)
        for use in _uses(column.expr, context, write, query, column=column.name):
            # A number that only orders or spreads rows, and is dropped before the write, does no harm.
            if column.name not in hidden or use.kind not in {"counter", "random"}:
                yield use
        yield from _inside(column.expr, write, done)
    for filter_ in query.filters:
        yield from _uses(filter_, "filter", write, query)
        yield from _inside(filter_, write, done)
    for source in query.sources:
        if source.on is not None:
            yield from _uses(source.on, "join", write, query)
            yield from _inside(source.on, write, done)
        if source.path is not None:
            yield from _uses(source.path, "input", write, query)
    for group in query.group_by:
        yield from _uses(group, "stored", write, query)
    for order in query.order_by:
        yield from _uses(order.expr, "order", write, query)
    if query.limit is not None:
        yield from _uses(query.limit, "filter", write, query)
    inner = [source.query for source in query.sources if source.query is not None]
    if inner:
        needed = _needed(query, wanted)
        for one in inner:
            yield from _of_query(one, write, done, needed, hidden | query.hidden if needed is None else frozenset())


def _inside(expr: Expr, write: Write | None, done: set[int]) -> Iterator[Use]:
    for query in expr.subqueries:
        yield from _of_query(query, write, done, None)


def _needed(query: Query, wanted: set[str] | None) -> set[str] | None:
    if not query.columns:
        return None
    if any(node.kind == "star" for column in query.columns for node in column.expr.walk() if column.name == "*"):
        return None
    names: set[str] = set()
    for top in query.expressions():
        names.update(node.name for node in top.walk(into_queries=True) if node.kind == "column")
    if wanted is not None:
        names |= wanted
    return names


def _uses(
    expr: Expr, context: Context, write: Write | None, query: Query | None = None, *, column: str = "", detail: str = ""
) -> Iterator[Use]:
    if not (expr.kinds or expr.subqueries):
        return
    for node, origin, fallback, beside in _visit(expr, fallback=False, beside=""):
        name = column or beside
        marked = replace(origin, fallback=True) if fallback and not origin.fallback else origin
        yield Use(
            marked, context, node.place, name, write, query, fallback=marked.fallback, detail=detail or origin.table
        )


def _visit(expr: Expr, *, fallback: bool, beside: str) -> Iterator[tuple[Expr, Origin, bool, str]]:
    """Walk an expression; `beside` is the column that a comparison is about."""
    for origin in expr.origins:
        yield expr, origin, fallback, beside
    if expr.kind == "query" and expr.query is not None:
        watermark = watermark_of(expr.query)
        if watermark is not None:
            yield expr, watermark, fallback, beside
    if expr.kind == "op" and expr.name in {"=", "<>", "<", "<=", ">", ">=", "between", "in", "like"}:
        columns = [name for arg in expr.args for name in arg.columns()]
        beside = columns[0] if columns else beside
    if expr.kind == "call" and expr.name in _COALESCE and len(expr.args) > 1:
        given = _is_given(expr.args[0])
        yield from _visit(expr.args[0], fallback=fallback, beside=beside)
        for arg in expr.args[1:]:
            yield from _visit(arg, fallback=fallback or given, beside=beside)
        return
    if expr.kind == "case":
        asks = any(
            node.kind == "op" and node.name == "is" and node.args and _is_given(node.args[0]) for node in expr.walk()
        )
        for arg in expr.args:
            yield from _visit(arg, fallback=fallback or asks, beside=beside)
        return
    for arg in (*expr.args, *expr.partition_by, *(order.expr for order in expr.order_by)):
        yield from _visit(arg, fallback=fallback, beside=beside)


# Variables stand for each other: what one of them stands for may double with every line of a file.
_MOST_NODES = 200
_MOST_LEAVES = 40


def bounded(expr: Expr) -> Expr:
    """Return an expression, or what matters of one that is too large to be followed wherever it stands.

    Of a large one its origins, sub-queries, parameters and columns are kept, each once, without what is around them.
    """
    if not expr.is_larger_than(_MOST_NODES):
        return expr
    leaves: dict[tuple[object, ...], Expr] = {}
    for node, origin, fallback, _ in _visit(expr, fallback=False, beside=""):
        marked = replace(origin, fallback=origin.fallback or fallback)
        leaves.setdefault((marked,), _alone(node, frozenset({marked})))
    for node in expr.walk():
        if node.query is not None or node.kind == "param":
            leaves.setdefault((node.kind, node.name, id(node.query)), _alone(node, node.origins))
    for node in expr.walk():
        if node.kind == "column":
            leaves.setdefault((node.kind, node.name, node.table), _alone(node, node.origins))
    return Expr("other", "combined", tuple(islice(leaves.values(), _MOST_LEAVES)), expr.place)


def _alone(node: Expr, origins: frozenset[Origin]) -> Expr:
    return replace(node, args=(), partition_by=(), order_by=(), origins=origins)


def _is_given(expr: Expr) -> bool:
    return any(
        node.kind == "param" or any(origin.kind == "parameter" for origin in node.origins) for node in expr.walk()
    )


def watermark_of(query: Query) -> Origin | None:
    """Return the origin of a query that asks for the greatest value of a table, if it does only that."""
    newest = _newest_row(query)
    if newest is not None:
        return newest
    seen: set[int] = set()
    asked: Query | None = query
    while asked is not None and id(asked) not in seen:
        seen.add(id(asked))
        if len(asked.columns) != 1 or asked.branches or asked.grouped:
            return None
        inner: Query | None = None
        for node in asked.columns[0].expr.walk():
            if node.kind == "call" and node.name == "max":
                tables = asked.tables()
                name = node.args[0].columns()[0] if node.args and node.args[0].columns() else ""
                return Origin("watermark", f"MAX({name})", node.place, table=tables[0] if tables else "")
            if node.kind == "query" and node.query is not None:
                inner = node.query
                break
        asked = inner
    return None


def _newest_row(query: Query) -> Origin | None:
    """Return the same of `SELECT updated_at FROM t ORDER BY updated_at DESC LIMIT 1`."""
    first = query.order_by[0] if query.order_by else None
    if first is None or not first.descending or first.expr.kind != "column" or query.branches or query.group_by:
        return None
    if query.limit is None or query.limit.value not in {1, "1"}:
        return None
    # The one value that is asked for is the greatest; of a whole row only if nothing chooses whose row it is.
    alone = len(query.columns) == 1 and query.columns[0].expr.columns() == (first.expr.name,)
    rows = not query.filters and any(column.name in {"*", first.expr.name} for column in query.columns)
    if not alone and not (rows and is_time_column(first.expr.name)):
        return None
    tables = query.tables()
    return Origin("watermark", f"MAX({first.expr.name})", first.expr.place, table=tables[0] if tables else "")
