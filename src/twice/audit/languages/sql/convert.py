"""sqlglot's trees as our expressions and queries."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from sqlglot import exp

from twice.audit.expressions import Expr, Order, Origin, OriginKind
from twice.audit.functions import CLOCK_COLUMNS, NOW_LITERALS, READS_NOW, origin_kind
from twice.audit.languages.sql.sources import HOLE, SqlText
from twice.audit.places import Place
from twice.audit.queries import Column, Query, Source

_OPS: dict[type[exp.Expression], str] = {
    exp.And: "and", exp.Or: "or", exp.Not: "not", exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">",
    exp.GTE: ">=", exp.Like: "like", exp.ILike: "like", exp.Is: "is", exp.NullSafeEQ: "<=>", exp.NullSafeNEQ: "is distinct",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||", exp.Neg: "neg",
}  # fmt: skip
_NAMES = {
    "ts_or_ds_to_date": "to_date", "ts_or_ds_add": "date_add", "group_concat": "string_agg", "str_to_time": "to_timestamp",
    "timestamp_trunc": "date_trunc", "datetime_trunc": "date_trunc", "str_to_date": "to_date", "array_unique_agg": "collect_set",
    "sha": "sha1", "md5_digest": "md5", "time_to_str": "date_format", "str_to_unix": "unix_timestamp", "first_value": "first_value",
    "generate_uuid": "uuid", "ts_or_ds_diff": "datediff", "date_diff": "datediff", "ts_or_ds_to_timestamp": "to_timestamp",
}  # fmt: skip
_DEEP = 250


class Converter:
    """Converts the statements of one text."""

    def __init__(self, source: SqlText, first: Place, clock_tokens: Iterable[tuple[str, Place]] = ()) -> None:
        self.source = source
        self.first = first
        self._tokens: dict[str, deque[Place]] = {}
        for name, place in clock_tokens:
            self._tokens.setdefault(name.lower(), deque()).append(place)
        self._deep = 0

    # places -----------------------------------------------------------------------------------------------------

    def place(self, node: exp.Expression | None, default: Place | None = None) -> Place:
        """Find where a node stands: sqlglot knows it for names, literals and calls."""
        if node is None:
            return default or self.first
        meta = node.meta
        if "line" in meta:
            length = meta.get("end", 0) - meta.get("start", 0)
            return self.source.place(meta["line"], meta["col"] - length)
        inner = node
        for _ in range(8):  # mostly the first name of an expression is its first part
            if not isinstance(inner.args.get("this"), exp.Expression):
                break
            inner = inner.args["this"]
            meta = inner.meta
            if "line" in meta:
                return self.source.place(meta["line"], meta["col"] - (meta.get("end", 0) - meta.get("start", 0)))
        for below in node.walk(bfs=False):
            if "line" in below.meta:
                meta = below.meta
                return self.source.place(meta["line"], meta["col"] - (meta.get("end", 0) - meta.get("start", 0)))
        return default or self.first

    # names ------------------------------------------------------------------------------------------------------

    def table_name(self, node: exp.Expression | None) -> str:
        """Return a table's dotted name, lower case, with holes readable."""
        if isinstance(node, exp.Schema):
            node = node.this
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Parameter):
                return f"@{node.this.name.lower()}"
            parts = list(node.parts)
            name = ".".join(part.name if isinstance(part, exp.Expression) else str(part) for part in parts)
            if any(isinstance(part, exp.Identifier) and part.args.get("temporary") for part in parts):
                name = f"#{name}"
            if not name and isinstance(node.this, exp.Expression):
                name = _text(node.this)
            return self.source.readable(name.lower()).replace("__this__", "this")
        if isinstance(node, exp.Parameter):
            return f"@{node.name.lower()}"
        return self.source.readable(_text(node).lower()) if node is not None else ""

    def name_expr(self, node: exp.Expression | None) -> Expr | None:
        """Return a computed table name or path as an expression that carries its origins."""
        if node is None or not self.source.holes:
            return None
        inner = node.this if isinstance(node, exp.Schema) else node
        text = ".".join(_text(part) for part in inner.parts) if isinstance(inner, exp.Table) else _text(inner)
        found = [
            self.source.holes[int(match[1])] for match in HOLE.finditer(text) if int(match[1]) in self.source.holes
        ]
        return Expr("other", "name", tuple(found), self.place(node)) if found else None

    # expressions ------------------------------------------------------------------------------------------------

    def expr(self, node: object, near: Place | None = None) -> Expr:
        """Convert an expression."""
        near = near or self.first
        if not isinstance(node, exp.Expression):
            return Expr("other", str(node or ""), place=near)
        self._deep += 1
        try:
            if self._deep > _DEEP:
                return Expr("other", "deep", place=near)
            return self._expr(node, near)
        finally:
            self._deep -= 1

    def _expr(self, node: exp.Expression, near: Place) -> Expr:
        if isinstance(
            node, (exp.Paren, exp.Alias, exp.IgnoreNulls, exp.RespectNulls, exp.Where, exp.Having, exp.Qualify)
        ):
            return self.expr(node.this, near)
        place = self._own_place(node, near)
        if isinstance(node, (exp.Select, exp.SetOperation, exp.Subquery)):
            return Expr("query", query=self.query(node, {}), place=place)
        if isinstance(node, exp.Column):
            return self._column(node, place)
        if isinstance(node, exp.Literal):
            return self._literal(node, place)
        if isinstance(node, (exp.Null, exp.Boolean)):
            value = None if isinstance(node, exp.Null) else bool(node.this)
            return Expr("literal", str(value).lower(), value=value, place=place)
        if isinstance(node, exp.Interval):
            return Expr("literal", "interval", value=_text(node.this), place=place)
        if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
            return self._parameter(node, place)
        if isinstance(node, exp.Star):
            return Expr("star", "*", place=place)
        if isinstance(node, exp.Window):
            return self._window(node, place)
        if isinstance(node, exp.Ordered):
            return self.expr(node.this, place)
        if isinstance(node, exp.Case):
            parts = [node.this, *(part for one in node.args.get("ifs") or () for part in (one.this, one.args.get("true"))), node.args.get("default")]  # fmt: skip
            return Expr("case", "case", self._all(parts, place), place)
        operator = _OPS.get(type(node))
        if operator is not None:
            return Expr("op", operator, self._all([node.this, node.args.get("expression")], place), place)
        if isinstance(node, exp.Between):
            return Expr(
                "op", "between", self._all([node.this, node.args.get("low"), node.args.get("high")], place), place
            )
        if isinstance(node, exp.In):
            inside = [node.args.get("query") or node.args.get("unnest") or node.args.get("field")]
            return Expr("op", "in", self._all([node.this, *(node.expressions or inside)], place), place)
        if isinstance(node, exp.Exists):
            return Expr("call", "exists", self._all([node.this], place), place)
        if isinstance(node, exp.Cast):
            kind = node.args.get("to")
            name = "cast_" + (
                kind.this.name.lower()
                if isinstance(kind, exp.DataType) and hasattr(kind.this, "name")
                else _text(kind).lower()
            )
            return self._now_literal(Expr("call", name, self._all([node.this], place), place))
        if isinstance(node, exp.Dot):
            return self._dot(node, place)
        if isinstance(node, exp.Func):
            return self._call(node, place)
        if isinstance(node, exp.Bracket):
            return self.expr(node.this, place)
        if isinstance(node, (exp.Var, exp.Identifier)):
            return self._named(node.name, place)
        children = list(node.iter_expressions())
        return Expr("other", node.key, self._all(children, place), place)

    def _own_place(self, node: exp.Expression, near: Place) -> Place:
        meta = node.meta
        if "line" in meta:
            return self.source.place(meta["line"], meta["col"] - (meta.get("end", 0) - meta.get("start", 0)))
        if isinstance(
            node, (exp.Column, exp.Binary, exp.Between, exp.In, exp.Window, exp.Not, exp.Case, exp.Cast, exp.Alias)
        ):
            return self.place(node, near)
        return near

    def _all(self, nodes: Iterable[object], near: Place) -> tuple[Expr, ...]:
        return tuple(self.expr(node, near) for node in nodes if isinstance(node, exp.Expression))

    def _named(self, name: str, place: Place) -> Expr:
        hole = self.source.hole(name)
        if hole is not None:
            return hole
        return Expr("column", name.lower(), place=place)

    def _column(self, node: exp.Column, place: Place) -> Expr:
        if isinstance(node.this, exp.Star):
            return Expr("star", "*", place=place, table=(node.table or "").lower())
        name = node.name
        hole = self.source.hole(name)
        if hole is not None and HOLE.fullmatch(name):
            return hole
        if name.startswith(("$", "@")):
            return Expr("param", name, place=place, origins=frozenset({Origin("parameter", name, place)}))
        quoted = isinstance(node.this, exp.Identifier) and node.this.quoted
        if not node.table and not quoted and name.lower() in CLOCK_COLUMNS:
            return Expr("call", name.lower(), place=place, origins=frozenset({Origin("clock", name, place)}))
        if name.lower() in {"nextval", "currval"} and node.table:
            return Expr(
                "call", "nextval", place=place, origins=frozenset({Origin("sequence", f"{node.table}.{name}", place)})
            )
        table = self.source.readable((node.table or "").lower())
        origins = hole.origins if hole is not None else frozenset()
        return Expr("column", self.source.readable(name.lower()), place=place, table=table, origins=origins)

    def _dot(self, node: exp.Dot, place: Place) -> Expr:
        last = node.expression
        if isinstance(last, exp.Func):
            return self.expr(last, place)
        return Expr(
            "column",
            last.name.lower() if isinstance(last, exp.Expression) else "",
            place=place,
            table=_text(node.this).lower(),
        )

    def _literal(self, node: exp.Literal, place: Place) -> Expr:
        text = str(node.this)
        found = [
            self.source.holes[int(match[1])] for match in HOLE.finditer(text) if int(match[1]) in self.source.holes
        ]
        if found:
            if len(found) == 1 and HOLE.fullmatch(text):
                return found[0]
            origins = frozenset(origin for hole in found for node_ in hole.walk() for origin in node_.origins)
            return Expr("python", self.source.readable(text), place=place, origins=origins)
        value: object = text
        if not node.is_string:
            try:
                value = int(text)
            except ValueError:
                try:
                    value = float(text)
                except ValueError:
                    value = text
        return Expr("literal", text, value=value, place=place)

    def _parameter(self, node: exp.Expression, place: Place) -> Expr:
        name = _text(node.this) if isinstance(node.this, exp.Expression) else str(node.this or "?")
        return Expr("param", name, place=place, origins=frozenset({Origin("parameter", name, place)}))

    def _window(self, node: exp.Window, place: Place) -> Expr:
        inner = self.expr(node.this, place)
        parts: Sequence[exp.Expression] = node.args.get("partition_by") or ()
        order_by: tuple[Order, ...] = tuple(self.orders(node.args.get("order"), place))
        for named in _named_windows(node):
            if named is None:  # defined where it cannot be seen: nothing is known about its order
                order_by = order_by or (Order(Expr("other", "window", place=place)),)
                break
            parts = parts or named.args.get("partition_by") or ()
            order_by = order_by or tuple(self.orders(named.args.get("order"), place))
        return Expr(
            "window", inner.name, (inner,), inner.place, partition_by=self._all(parts, place), order_by=order_by
        )

    def orders(self, node: exp.Expression | None, near: Place) -> list[Order]:
        """Convert the terms of an ORDER BY."""
        if node is None:
            return []
        return [
            Order(self.expr(term, near), descending=bool(isinstance(term, exp.Ordered) and term.args.get("desc")))
            for term in node.expressions
        ]

    def _call(self, node: exp.Func, place: Place) -> Expr:
        name = node.name if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)) else node.sql_name()
        name = _NAMES.get(name.lower(), name.lower())
        name = name.rsplit(".", 1)[-1]
        arguments: list[exp.Expression] = []
        order: list[Order] = []
        for part in node.iter_expressions():
            # ARRAY_AGG(x ORDER BY y LIMIT 1)
            child = part.this if isinstance(part, exp.Limit) and isinstance(part.this, exp.Order) else part
            if isinstance(child, exp.Order):
                order = self.orders(child, place)
                if isinstance(child.this, exp.Expression):
                    arguments.append(child.this)
            elif isinstance(child, exp.Distinct):
                arguments.extend(child.expressions)
            elif isinstance(child, exp.HavingMax):
                arguments.append(child.this)
                order = [Order(self.expr(child.expression, place), descending=True)]
            elif not isinstance(child, (exp.Var, exp.DataType)) or HOLE.search(child.name):
                arguments.append(cast("exp.Expression", child))
        if isinstance(node, exp.WithinGroup):
            inner = self.expr(node.this, place)
            return Expr(
                "call",
                inner.name,
                inner.args,
                inner.place,
                order_by=tuple(order or self.orders(node.args.get("expression"), place)),
            )
        kind = origin_kind(name, len(arguments))
        if kind is not None and "line" not in node.meta:
            place = self._token_place(name, place)
        if name in {"current_timestamp", "current_date", "current_time"} and kind is None:
            kind = "clock"
        origins = frozenset({Origin(kind, self._written(name), place)}) if kind else frozenset[Origin]()
        return self._now_literal(
            Expr("call", name, self._all(arguments, place), place, origins=origins, order_by=tuple(order))
        )

    def _token_place(self, name: str, near: Place) -> Place:
        waiting = self._tokens.get(name)
        return waiting.popleft() if waiting else near

    def _written(self, name: str) -> str:
        return name.upper() if name.startswith(("current_", "local")) else name

    def _now_literal(self, call: Expr) -> Expr:
        """'now'::timestamp, DATE 'today', date('now'): the clock as a literal."""
        if call.name in READS_NOW or call.name.startswith(("cast_date", "cast_time", "cast_timestamp")):
            for arg in call.args:
                if arg.kind == "literal" and isinstance(arg.value, str) and arg.value.strip().lower() in NOW_LITERALS:
                    clock: OriginKind = "clock"
                    origin = Origin(clock, f"'{arg.value}'", call.place)
                    return Expr(call.kind, call.name, call.args, call.place, origins=frozenset({origin}))
        return call

    # queries ----------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression | None, known: dict[str, Query]) -> Query:
        """Convert a SELECT, UNION, VALUES or table; `known` are the CTEs in sight."""
        self._deep += 1
        try:
            if node is None or self._deep > _DEEP:
                return Query(place=self.first)
            return self._query(node, known)
        finally:
            self._deep -= 1

    def _query(self, node: exp.Expression, known: dict[str, Query]) -> Query:
        known = {**known, **self.ctes(node, known)}
        if isinstance(node, exp.Subquery):
            inner = self.query(node.this, known)
            if node.args.get("limit") is not None or node.args.get("order") is not None:
                outer = Query(sources=[Source(query=inner, kind="query", place=inner.place)], place=inner.place)
                self._order_and_limit(node, outer)
                return outer
            return inner
        if isinstance(node, exp.Except):  # what the other side has is left out
            left = self.query(node.this, known)
            right = self.query(node.args.get("expression"), known)
            left.sources.append(Source(query=right, how="anti", kind="query", place=right.place))
            return left
        if isinstance(node, exp.SetOperation):
            found = Query(place=self.place(node, self.first), union_all=not node.args.get("distinct"))
            found.branches = [self.query(node.this, known), self.query(node.args.get("expression"), known)]
            self._order_and_limit(node, found)
            return found
        if isinstance(node, exp.Select):
            return self._select(node, known)
        if isinstance(node, exp.Values):
            rows = [self.expr(row, self.place(row)) for row in node.expressions[:50]]
            first = rows[0].args if rows else ()
            query = Query(
                columns=[Column("", value, value.place) for value in first], place=self.place(node, self.first)
            )
            for row in rows[1:]:
                query.columns.extend(Column("", value, value.place) for value in row.args if value.origins)
            return query
        if isinstance(node, exp.Table):
            source = self.source_of(node, known)
            return Query(
                columns=[Column("*", Expr("star", "*", place=source.place))], sources=[source], place=source.place
            )
        if isinstance(node.args.get("this"), exp.Expression):
            return self.query(node.this, known)
        return Query(place=self.place(node, self.first))

    def ctes(self, node: exp.Expression, known: dict[str, Query]) -> dict[str, Query]:
        """Convert the WITH of a statement."""
        with_ = argument(node, "with")
        found: dict[str, Query] = {}
        if with_ is None:
            return found
        for cte in with_.expressions:
            if isinstance(cte.this, exp.Query):
                found[cte.alias.lower()] = self.query(cast("exp.Expression", cte.this), {**known, **found})
        return found

    def _select(self, node: exp.Select, known: dict[str, Query]) -> Query:
        start = self.place(node, self.first)
        query = Query(place=start)
        for item in node.expressions:
            place = self.place(item, start)
            value = self.expr(item, place)
            name = (
                item.alias
                if isinstance(item, (exp.Alias, exp.PropertyEQ))
                else value.name
                if value.kind in {"column", "star"}
                else ""
            )
            if isinstance(item, exp.EQ) and not isinstance(item.this, exp.Parameter):  # T-SQL: SELECT name = value
                name, value = item.this.name, self.expr(item.args.get("expression"), place)
            query.columns.append(Column(self.source.readable(name.lower()), value, place))
        from_ = argument(node, "from")
        if from_ is not None and isinstance(from_.this, exp.Expression):
            query.sources.append(self.source_of(from_.this, known))
            for join in from_.this.args.get("joins") or ():
                query.sources.append(self._join(join, known))
        for join in node.args.get("joins") or ():
            query.sources.append(self._join(join, known))
        for lateral in node.args.get("laterals") or ():
            if isinstance(lateral.this, exp.Subquery):
                query.sources.append(
                    Source(query=self.query(lateral.this, known), how="lateral", kind="query", place=start)
                )
        for name in ("where", "having", "qualify", "prewhere"):
            clause = node.args.get(name)
            if clause is not None:
                query.filters.extend(self.condition(clause.this, known).conjuncts())
        group = node.args.get("group")
        if group is not None:
            query.grouped = True
            query.group_by = [self.expr(item, start) for item in group.expressions]
        distinct = node.args.get("distinct")
        if distinct is not None:
            on = distinct.args.get("on")
            if on is not None:
                query.distinct_on = tuple(
                    name for item in (on.expressions or [on]) for name in self.expr(item, start).columns()
                )
                query.distinct_place = self.place(on, start)
            else:
                query.distinct = True
        self._order_and_limit(node, query)
        sample = node.args.get("sample")
        if sample is not None:
            self._sample(sample, query, start)
        return query

    def condition(self, node: exp.Expression | None, known: dict[str, Query]) -> Expr:
        """Convert a condition whose sub-queries may use the CTEs in sight."""
        found = self.expr(node)
        return _with_known(found, known) if known else found

    def _order_and_limit(self, node: exp.Expression, query: Query) -> None:
        query.order_by = self.orders(node.args.get("order") or node.args.get("sort"), query.place)
        limit = node.args.get("limit")
        if limit is not None:
            count = limit.args.get("expression") or limit.args.get("count")
            value = self.expr(count, self.place(limit, query.place))
            query.limit = Expr(
                value.kind, value.name, value.args, value.place, value=value.value, origins=value.origins
            )

    def _sample(self, node: exp.Expression, query: Query, near: Place) -> None:
        size = (
            node.args.get("percent")
            or node.args.get("rows")
            or node.args.get("size")
            or node.args.get("bucket_numerator")
        )
        query.sample = self.expr(size, self.place(node, near))
        query.sample_seeded = node.args.get("seed") is not None or node.args.get("bucket_field") is not None

    def _join(self, node: exp.Join, known: dict[str, Query]) -> Source:
        inner = self.source_of(node.this, known)
        how = " ".join(str(node.args.get(part) or "").lower() for part in ("side", "kind")).strip() or "inner"
        on = node.args.get("on")
        condition: Expr | None = self.condition(on, known) if on is not None else None
        if condition is None and node.args.get("using"):
            pairs = [
                Expr("op", "=", (Expr("column", item.name.lower(), place=inner.place), Expr("column", item.name.lower(), place=inner.place, table=inner.alias or inner.name)), inner.place)
                for item in node.args["using"]
            ]  # fmt: skip
            condition = pairs[0] if len(pairs) == 1 else Expr("op", "and", tuple(pairs), inner.place)
        how = next((word for word in ("anti", "semi", "cross", "full", "right", "left") if word in how), "inner")
        return Source(inner.name, inner.alias, inner.query, how, condition, inner.place, inner.kind, inner.path)

    def source_of(self, node: exp.Expression, known: dict[str, Query]) -> Source:
        """Convert what stands after FROM, JOIN or USING."""
        place = self.place(node, self.first)
        alias = (node.alias_or_name if isinstance(node, (exp.Table, exp.Subquery)) else node.alias or "").lower()
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
            query = None
            return Source(self.table_name(node), alias, query, place=place, kind="function")
        if isinstance(node, exp.Table):
            name = self.table_name(node)
            cte = known.get(name) if "." not in name else None
            source = Source(
                "" if cte else name,
                alias or name,
                cte,
                place=place,
                kind="query" if cte else "table",
                path=self.name_expr(node),
            )
            sample = node.args.get("sample")
            if sample is not None:
                sampled = Query(sources=[source], columns=[Column("*", Expr("star", "*", place=place))], place=place)
                self._sample(sample, sampled, place)
                return Source(source.name, source.alias, sampled, place=place, kind="query")
            return source
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation, exp.Values)):
            return Source("", alias, self.query(node, known), place=place, kind="query")
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            return Source("", alias, self.query(node.this, known), place=place, kind="query", how="lateral")
        return Source(self.source.readable(_text(node).lower()[:80]), alias, None, place=place, kind="function")


def _with_known(expr: Expr, known: dict[str, Query]) -> Expr:
    """Bind the CTEs in sight to the sub-queries of a condition."""
    for node in expr.walk(into_queries=False):
        if node.query is None:
            continue
        for query in node.query.walk():
            query.sources = [
                Source("", source.alias, known[source.name], source.how, source.on, source.place, "query", source.path)
                if source.query is None and source.name in known
                else source
                for source in query.sources
            ]
    return expr


def _named_windows(node: exp.Window) -> Iterator[exp.Window | None]:
    """Yield the definitions in WINDOW w AS (…) that a window is built on, or None for one that is not in sight."""
    select = node.find_ancestor(exp.Select)
    known = {one.name.lower(): one for one in (select.args.get("windows") or ())} if select is not None else {}
    name = node.args.get("alias")
    for _ in range(5):
        if name is None:
            return
        found = known.get(_text(name).lower())
        yield found
        name = found.args.get("alias") if found is not None else None


def argument(node: exp.Expression, name: str) -> exp.Expression | None:
    """Return an argument whose name ends with an underscore in newer versions of sqlglot."""
    found = node.args.get(f"{name}_") or node.args.get(name)
    return found if isinstance(found, exp.Expression) else None


def _text(node: object) -> str:
    if not isinstance(node, exp.Expression):
        return str(node or "")
    if isinstance(node, (exp.Identifier, exp.Literal, exp.Var)):
        return str(node.this)
    try:
        return node.sql()
    except Exception:  # noqa: BLE001 - sqlglot may fail to write what it has read; then the name stays unknown
        return node.name
