"""sqlglot's queries as ours: SELECT, set operations, common table expressions, joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sqlglot import exp

from twice.audit.expressions import Expr
from twice.audit.languages.sql.nodes import argument, text_of
from twice.audit.places import Place
from twice.audit.queries import Column, Query, Source

if TYPE_CHECKING:
    from twice.audit.languages.sql.convert import Converter


_CALENDARS = (exp.GenerateDateArray, exp.GenerateTimestampArray, exp.GenerateSeries)


def query(convert: Converter, node: exp.Expression, known: dict[str, Query]) -> Query:
    """Convert a SELECT, UNION, VALUES or table; `known` are the CTEs in sight."""
    known = {**known, **ctes(convert, node, known)}
    if isinstance(node, exp.Subquery):
        inner = convert.query(node.this, known)
        if node.args.get("limit") is not None or node.args.get("order") is not None:
            outer = Query(sources=[Source(query=inner, kind="query", place=inner.place)], place=inner.place)
            _order_and_limit(convert, node, outer)
            return outer
        return inner
    if isinstance(node, exp.Except):  # what the other side has is left out
        left = convert.query(node.this, known)
        right = convert.query(node.args.get("expression"), known)
        left.sources.append(Source(query=right, how="anti", kind="query", place=right.place))
        return left
    if isinstance(node, exp.SetOperation):
        found = Query(place=convert.place(node, convert.first), union_all=not node.args.get("distinct"))
        found.branches = [convert.query(node.this, known), convert.query(node.args.get("expression"), known)]
        _order_and_limit(convert, node, found)
        return found
    if isinstance(node, exp.Select):
        return _select(convert, node, known)
    if isinstance(node, exp.Values):
        rows = [convert.expr(row, convert.place(row)) for row in node.expressions[:50]]
        first = rows[0].args if rows else ()
        query = Query(
            columns=[Column("", value, value.place) for value in first], place=convert.place(node, convert.first)
        )
        for row in rows[1:]:
            query.columns.extend(Column("", value, value.place) for value in row.args if value.origins)
        return query
    if isinstance(node, exp.Table):
        source = source_of(convert, node, known)
        return Query(columns=[Column("*", Expr("star", "*", place=source.place))], sources=[source], place=source.place)
    if isinstance(node.args.get("this"), exp.Expression):
        return convert.query(node.this, known)
    return Query(place=convert.place(node, convert.first))


def ctes(convert: Converter, node: exp.Expression, known: dict[str, Query]) -> dict[str, Query]:
    """Convert the WITH of a statement."""
    with_ = argument(node, "with")
    found: dict[str, Query] = {}
    if with_ is None:
        return found
    for cte in with_.expressions:
        if isinstance(cte.this, exp.Query):
            found[cte.alias.lower()] = convert.query(cast("exp.Expression", cte.this), {**known, **found})
    return found


def _select(convert: Converter, node: exp.Select, known: dict[str, Query]) -> Query:
    start = convert.place(node, convert.first)
    query = Query(place=start)
    for item in node.expressions:
        place = convert.place(item, start)
        value = convert.expr(item, place)
        name = (
            item.alias
            if isinstance(item, (exp.Alias, exp.PropertyEQ))
            else value.name
            if value.kind in {"column", "star"}
            else ""
        )
        if isinstance(item, exp.EQ) and not isinstance(item.this, exp.Parameter):  # T-SQL: SELECT name = value
            name, value = item.this.name, convert.expr(item.args.get("expression"), place)
        query.columns.append(Column(convert.source.readable(name.lower()), value, place))
    from_ = argument(node, "from")
    if from_ is not None and isinstance(from_.this, exp.Expression):
        query.sources.append(source_of(convert, from_.this, known))
        for join in from_.this.args.get("joins") or ():
            query.sources.append(_join(convert, join, known))
    for join in node.args.get("joins") or ():
        query.sources.append(_join(convert, join, known))
    for lateral in node.args.get("laterals") or ():
        if isinstance(lateral.this, exp.Subquery):
            query.sources.append(
                Source(query=convert.query(lateral.this, known), how="lateral", kind="query", place=start)
            )
    for name in ("where", "having", "qualify", "prewhere"):
        clause = node.args.get(name)
        if clause is not None:
            query.filters.extend(condition(convert, clause.this, known).conjuncts())
    group = node.args.get("group")
    if group is not None:
        query.grouped = True
        query.group_by = [convert.expr(item, start) for item in group.expressions]
    distinct = node.args.get("distinct")
    if distinct is not None:
        on = distinct.args.get("on")
        if on is not None:
            query.distinct_on = tuple(
                name for item in (on.expressions or [on]) for name in convert.expr(item, start).columns()
            )
            query.distinct_place = convert.place(on, start)
        else:
            query.distinct = True
    _order_and_limit(convert, node, query)
    sample = node.args.get("sample")
    if sample is not None:
        _sample(convert, sample, query, start)
    return query


def condition(convert: Converter, node: exp.Expression | None, known: dict[str, Query]) -> Expr:
    """Convert a condition whose sub-queries may use the CTEs in sight."""
    found = convert.expr(node)
    return _with_known(found, known) if known else found


def _order_and_limit(convert: Converter, node: exp.Expression, query: Query) -> None:
    query.order_by = convert.orders(node.args.get("order") or node.args.get("sort"), query.place)
    limit = node.args.get("limit")
    if limit is not None:
        count = limit.args.get("expression") or limit.args.get("count")
        value = convert.expr(count, convert.place(limit, query.place))
        query.limit = Expr(value.kind, value.name, value.args, value.place, value=value.value, origins=value.origins)


def _sample(convert: Converter, node: exp.Expression, query: Query, near: Place) -> None:
    size = (
        node.args.get("percent") or node.args.get("rows") or node.args.get("size") or node.args.get("bucket_numerator")
    )
    query.sample = convert.expr(size, convert.place(node, near))
    query.sample_seeded = node.args.get("seed") is not None or node.args.get("bucket_field") is not None


def _join(convert: Converter, node: exp.Join, known: dict[str, Query]) -> Source:
    inner = source_of(convert, node.this, known)
    how = " ".join(str(node.args.get(part) or "").lower() for part in ("side", "kind")).strip() or "inner"
    on = node.args.get("on")
    matches: Expr | None = condition(convert, on, known) if on is not None else None
    if matches is None and node.args.get("using"):
        pairs = [
            Expr("op", "=", (Expr("column", item.name.lower(), place=inner.place), Expr("column", item.name.lower(), place=inner.place, table=inner.alias or inner.name)), inner.place)
            for item in node.args["using"]
        ]  # fmt: skip
        matches = pairs[0] if len(pairs) == 1 else Expr("op", "and", tuple(pairs), inner.place)
    how = next((word for word in ("anti", "semi", "cross", "full", "right", "left") if word in how), "inner")
    return Source(inner.name, inner.alias, inner.query, how, matches, inner.place, inner.kind, inner.path)


def source_of(convert: Converter, node: exp.Expression, known: dict[str, Query]) -> Source:
    """Convert what stands after FROM, JOIN or USING."""
    place = convert.place(node, convert.first)
    alias = (node.alias_or_name if isinstance(node, (exp.Table, exp.Subquery)) else node.alias or "").lower()
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
        query = None
        return Source(convert.table_name(node), alias, query, place=place, kind="function")
    if isinstance(node, exp.Table):
        name = convert.table_name(node)
        cte = known.get(name) if "." not in name else None
        source = Source(
            "" if cte else name,
            alias or name,
            cte,
            place=place,
            kind="query" if cte else "table",
            path=convert.name_expr(node),
        )
        sample = node.args.get("sample")
        if sample is not None:
            sampled = Query(sources=[source], columns=[Column("*", Expr("star", "*", place=place))], place=place)
            _sample(convert, sample, sampled, place)
            return Source(source.name, source.alias, sampled, place=place, kind="query")
        return source
    if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation, exp.Values)):
        return Source("", alias, convert.query(node, known), place=place, kind="query")
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
        return Source("", alias, convert.query(node.this, known), place=place, kind="query", how="lateral")
    # What is computed there decides the rows; a calendar up to today is not an input.
    computed = isinstance(node, exp.Unnest) and node.find(*_CALENDARS) is None
    path = convert.expr(node) if computed else None
    name = convert.source.readable(text_of(node).lower()[:80])
    return Source(name, alias, None, place=place, kind="function", path=path)


def _with_known(expr: Expr, known: dict[str, Query]) -> Expr:
    """Bind the CTEs in sight to the sub-queries of a condition."""
    for inner in expr.subqueries:
        for query in inner.walk():
            query.sources = [
                Source("", source.alias, known[source.name], source.how, source.on, source.place, "query", source.path)
                if source.query is None and source.name in known
                else source
                for source in query.sources
            ]
    return expr
