"""sqlglot's expressions as ours, one function for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from twice.audit.expressions import Expr, Order, Origin, OriginKind
from twice.audit.functions import CLOCK_COLUMNS, NOW_LITERALS, READS_NOW, origin_kind
from twice.audit.languages.sql.nodes import text_of
from twice.audit.languages.sql.sources import HOLE
from twice.audit.places import Place

if TYPE_CHECKING:
    from twice.audit.languages.sql.convert import Converter

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


@dataclass(frozen=True)
class Term:
    """How nodes of one class are converted."""

    convert: Callable[[Converter, Any, Place], Expr]
    placed: bool  # it stands where its first part stands, not where the expression around it does


def _subquery(convert: Converter, node: exp.Expression, place: Place) -> Expr:
    return Expr("query", query=convert.query(node, {}), place=place)


def _constant(_convert: Converter, node: exp.Null | exp.Boolean, place: Place) -> Expr:
    value = None if isinstance(node, exp.Null) else bool(node.this)
    return Expr("literal", str(value).lower(), value=value, place=place)


def _interval(_convert: Converter, node: exp.Interval, place: Place) -> Expr:
    return Expr("literal", "interval", value=text_of(node.this), place=place)


def _star(_convert: Converter, _node: exp.Star, place: Place) -> Expr:
    return Expr("star", "*", place=place)


def _inner(convert: Converter, node: exp.Expression, place: Place) -> Expr:
    return convert.expr(node.this, place)


def _case(convert: Converter, node: exp.Case, place: Place) -> Expr:
    parts = [node.this]
    for one in node.args.get("ifs") or ():
        parts += [one.this, one.args.get("true")]
    return Expr("case", "case", convert.all([*parts, node.args.get("default")], place), place)


def _operation(name: str, convert: Converter, node: exp.Expression, place: Place) -> Expr:
    return Expr("op", name, convert.all([node.this, node.args.get("expression")], place), place)


def _between(convert: Converter, node: exp.Between, place: Place) -> Expr:
    parts = [node.this, node.args.get("low"), node.args.get("high")]
    return Expr("op", "between", convert.all(parts, place), place)


def _in(convert: Converter, node: exp.In, place: Place) -> Expr:
    inside = [node.args.get("query") or node.args.get("unnest") or node.args.get("field")]
    return Expr("op", "in", convert.all([node.this, *(node.expressions or inside)], place), place)


def _exists(convert: Converter, node: exp.Exists, place: Place) -> Expr:
    return Expr("call", "exists", convert.all([node.this], place), place)


def _cast(convert: Converter, node: exp.Cast, place: Place) -> Expr:
    kind = node.args.get("to")
    named = isinstance(kind, exp.DataType) and hasattr(kind.this, "name")
    name = "cast_" + (kind.this.name if named and kind is not None else text_of(kind)).lower()
    return _now_literal(Expr("call", name, convert.all([node.this], place), place))


def _word(convert: Converter, node: exp.Var | exp.Identifier, place: Place) -> Expr:
    hole = convert.source.hole(node.name)
    return hole if hole is not None else Expr("column", node.name.lower(), place=place)


def _other(convert: Converter, node: exp.Expression, place: Place) -> Expr:
    return Expr("other", node.key, convert.all(node.iter_expressions(), place), place)


def _column(convert: Converter, node: exp.Column, place: Place) -> Expr:
    if isinstance(node.this, exp.Star):
        return Expr("star", "*", place=place, table=(node.table or "").lower())
    name = node.name
    hole = convert.source.hole(name)
    if hole is not None and HOLE.fullmatch(name):
        return hole
    if name.startswith(("$", "@")):
        return Expr("param", name, place=place, origins=frozenset({Origin("parameter", name, place)}))
    lowered, table = name.lower(), node.table or ""
    if not table and lowered in CLOCK_COLUMNS and not (isinstance(node.this, exp.Identifier) and node.this.quoted):
        return Expr("call", lowered, place=place, origins=frozenset({Origin("clock", name, place)}))
    if table and lowered in {"nextval", "currval"}:
        return Expr("call", "nextval", place=place, origins=frozenset({Origin("sequence", f"{table}.{name}", place)}))
    origins = hole.origins if hole is not None else frozenset()
    readable = convert.source.readable
    return Expr("column", readable(lowered), place=place, table=readable(table.lower()), origins=origins)


def _dot(convert: Converter, node: exp.Dot, place: Place) -> Expr:
    last = node.expression
    if isinstance(last, exp.Func):
        return convert.expr(last, place)
    return Expr(
        "column",
        last.name.lower() if isinstance(last, exp.Expression) else "",
        place=place,
        table=text_of(node.this).lower(),
    )


def _literal(convert: Converter, node: exp.Literal, place: Place) -> Expr:
    text = str(node.this)
    found = convert.source.holes_in(text)
    if found:
        if len(found) == 1 and HOLE.fullmatch(text):
            return found[0]
        origins = frozenset(origin for hole in found for node_ in hole.walk() for origin in node_.origins)
        return Expr("python", convert.source.readable(text), place=place, origins=origins)
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


def _parameter(convert: Converter, node: exp.Expression, place: Place) -> Expr:
    name = text_of(node.this) if isinstance(node.this, exp.Expression) else str(node.this or "?")
    return Expr("param", name, place=place, origins=frozenset({Origin("parameter", name, place)}))


def _window(convert: Converter, node: exp.Window, place: Place) -> Expr:
    inner = convert.expr(node.this, place)
    parts: Sequence[exp.Expression] = node.args.get("partition_by") or ()
    order_by: tuple[Order, ...] = tuple(convert.orders(node.args.get("order"), place))
    for named in _named_windows(node):
        if named is None:  # defined where it cannot be seen: nothing is known about its order
            order_by = order_by or (Order(Expr("other", "window", place=place)),)
            break
        parts = parts or named.args.get("partition_by") or ()
        order_by = order_by or tuple(convert.orders(named.args.get("order"), place))
    return Expr("window", inner.name, (inner,), inner.place, partition_by=convert.all(parts, place), order_by=order_by)


def _call(convert: Converter, node: exp.Func, place: Place) -> Expr:
    name = node.name if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)) else node.sql_name()
    name = _NAMES.get(name.lower(), name.lower())
    name = name.rsplit(".", 1)[-1]
    arguments: list[exp.Expression] = []
    order: list[Order] = []
    for part in node.iter_expressions():
        # ARRAY_AGG(x ORDER BY y LIMIT 1)
        child = part.this if isinstance(part, exp.Limit) and isinstance(part.this, exp.Order) else part
        if isinstance(child, exp.Order):
            order = convert.orders(child, place)
            if isinstance(child.this, exp.Expression):
                arguments.append(child.this)
        elif isinstance(child, exp.Distinct):
            arguments.extend(child.expressions)
        elif isinstance(child, exp.HavingMax):
            arguments.append(child.this)
            order = [Order(convert.expr(child.expression, place), descending=True)]
        elif not isinstance(child, (exp.Var, exp.DataType)) or HOLE.search(child.name):
            arguments.append(cast("exp.Expression", child))
    if isinstance(node, exp.WithinGroup):
        inner = convert.expr(node.this, place)
        return Expr(
            "call",
            inner.name,
            inner.args,
            inner.place,
            order_by=tuple(order or convert.orders(node.args.get("expression"), place)),
        )
    kind = origin_kind(name, len(arguments))
    if kind is not None and "line" not in node.meta:
        place = convert.token_place(name, place)
    if name in {"current_timestamp", "current_date", "current_time"} and kind is None:
        kind = "clock"
    origins = frozenset({Origin(kind, _written(name), place)}) if kind else frozenset[Origin]()
    return _now_literal(
        Expr("call", name, convert.all(arguments, place), place, origins=origins, order_by=tuple(order))
    )


def _written(name: str) -> str:
    return name.upper() if name.startswith(("current_", "local")) else name


def _now_literal(call: Expr) -> Expr:
    """'now'::timestamp, DATE 'today', date('now'): the clock as a literal."""
    if call.name in READS_NOW or call.name.startswith(("cast_date", "cast_time", "cast_timestamp")):
        for arg in call.args:
            if arg.kind == "literal" and isinstance(arg.value, str) and arg.value.strip().lower() in NOW_LITERALS:
                clock: OriginKind = "clock"
                origin = Origin(clock, f"'{arg.value}'", call.place)
                return Expr(call.kind, call.name, call.args, call.place, origins=frozenset({origin}))
    return call


def _named_windows(node: exp.Window) -> Iterator[exp.Window | None]:
    """Yield the definitions in WINDOW w AS (…) that a window is built on, or None for one that is not in sight."""
    select = node.find_ancestor(exp.Select)
    known = {one.name.lower(): one for one in (select.args.get("windows") or ())} if select is not None else {}
    name = node.args.get("alias")
    for _ in range(5):
        if name is None:
            return
        found = known.get(text_of(name).lower())
        yield found
        name = found.args.get("alias") if found is not None else None


_THROUGH = (exp.Paren, exp.Alias, exp.IgnoreNulls, exp.RespectNulls, exp.Where, exp.Having, exp.Qualify)
_PLACED = (exp.Column, exp.Binary, exp.Between, exp.In, exp.Window, exp.Not, exp.Case, exp.Cast)
# A node is converted by the first that fits: CAST is a function too, and AND is an operator and a function.
_TERMS: tuple[tuple[type | tuple[type, ...], Callable[[Converter, Any, Place], Expr]], ...] = (
    ((exp.Select, exp.SetOperation, exp.Subquery), _subquery),
    (exp.Column, _column),
    (exp.Literal, _literal),
    ((exp.Null, exp.Boolean), _constant),
    (exp.Interval, _interval),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), _parameter),
    (exp.Star, _star),
    (exp.Window, _window),
    (exp.Ordered, _inner),
    (exp.Case, _case),
    *((kind, partial(_operation, name)) for kind, name in _OPS.items()),
    (exp.Between, _between),
    (exp.In, _in),
    (exp.Exists, _exists),
    (exp.Cast, _cast),
    (exp.Dot, _dot),
    (exp.Func, _call),
    (exp.Bracket, _inner),
    ((exp.Var, exp.Identifier), _word),
)


class _Terms(dict[type, Term | None]):
    def __missing__(self, kind: type) -> Term | None:
        fits = (convert for kinds, convert in _TERMS if issubclass(kind, kinds))
        found = None if issubclass(kind, _THROUGH) else Term(next(fits, _other), issubclass(kind, _PLACED))
        self[kind] = found
        return found


# How the nodes of each class are converted; None for one that only stands around another.
TERMS = _Terms()
