"""Columns of a DataFrame: pyspark.sql.functions, operators, windows, user-defined functions."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr, Order, Origin
from twice.audit.functions import origin_kind
from twice.audit.languages.python.sqltexts import as_expr, condition
from twice.audit.languages.python.values import (
    NONE,
    Col,
    Const,
    Frame,
    Function,
    Items,
    Origins,
    Text,
    Value,
    WindowSpec,
    alternatives,
    column_name,
    origins_of,
    plain,
)
from twice.audit.queries import Query

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_FUNCTIONS = re.compile(
    r"^(pyspark\.sql\.functions|pyspark\.sql\.connect\.functions|snowflake\.snowpark\.functions|F|f|sf|psf|fn)\.(\w+)$"
)
_SHORT = frozenset({"F", "f", "sf", "psf", "fn"})
_WINDOW = re.compile(r"(^|\.)Window\.(partitionBy|orderBy|rowsBetween|rangeBetween)$")
_CAMEL = {
    "countDistinct": "count_distinct", "sumDistinct": "sum_distinct", "approxCountDistinct": "approx_count_distinct",
    "monotonicallyIncreasingId": "monotonically_increasing_id", "to_date": "to_date", "toDate": "to_date",
}  # fmt: skip
# Functions whose text arguments are literals, not columns, after the first.
_LITERALS_AFTER = frozenset({"to_date", "to_timestamp", "date_format", "regexp_replace", "regexp_extract", "split", "date_trunc", "trunc", "from_unixtime", "unix_timestamp", "lpad", "rpad", "substring_index", "get_json_object", "from_json", "sha2", "concat_ws", "format_string", "date_sub", "date_add", "to_utc_timestamp", "from_utc_timestamp", "instr", "locate", "translate", "add_months", "round", "window"})  # fmt: skip
_LITERALS_FIRST = frozenset({"concat_ws", "date_trunc", "format_string", "lit", "expr"})
_METHODS = {
    "eqNullSafe": "<=>", "isin": "in", "like": "like", "rlike": "like", "between": "between", "contains": "like", "startswith": "like", "endswith": "like",
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


@lru_cache(maxsize=4096)
def _home_and_name(dotted: str) -> tuple[str, str]:
    """Return where a function of columns or windows lives, and its name; nothing for any other."""
    if _WINDOW.search(dotted):
        return "Window", dotted.rpartition(".")[2]
    match = _FUNCTIONS.match(dotted)
    return (match[1], match[2]) if match else ("", "")


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Call a function of pyspark.sql.functions, or make a window."""
    home, name = _home_and_name(dotted)
    if home == "Window":
        return window_method(interp, WindowSpec(), name, arguments, node)
    if not home or (home in _SHORT and not interp.spark):
        return None
    place = interp.place(node)
    if name in {"col", "column"}:
        text = column_name(arguments[0]) or None if arguments else None
        if text is None:
            origins = origins_of(arguments[0]) if arguments else NONE
            return Col(
                expr=Expr("column", "{" + (arguments[0].name if arguments else "") + "}", place=place, origins=origins)
            )
        table, _, last = text.lower().rpartition(".")
        return Col(
            expr=Expr("column", last, place=place, table=table) if last != "*" else Expr("star", "*", place=place)
        )
    if name == "lit":
        value = arguments[0] if arguments else Const()
        expr = as_expr(interp, value, node)
        return Col(expr=expr)
    if name == "expr" and arguments and isinstance(arguments[0], Text):
        return Col(expr=condition(interp, arguments[0], node))
    if name in {"udf", "pandas_udf"}:
        return _udf(interp, arguments, node)
    if name == "broadcast" and arguments:
        return arguments[0]
    if name == "when":
        return Col(expr=Expr("case", "case", tuple(_argument(interp, one, node) for one in arguments), place))
    if (
        name in {"asc", "desc", "asc_nulls_first", "asc_nulls_last", "desc_nulls_first", "desc_nulls_last"}
        and arguments
    ):
        return Col(
            expr=Expr(
                "call", "desc" if name.startswith("desc") else "asc", (_argument(interp, arguments[0], node),), place
            )
        )
    name = _CAMEL.get(name, name)
    literal_from = 1 if name in _LITERALS_AFTER else 99
    args = tuple(
        _argument(interp, one, node, literal=index >= literal_from or (index == 0 and name in _LITERALS_FIRST))
        if not (name == "concat_ws" and index)
        else _argument(interp, one, node)
        for index, one in enumerate(_flat(arguments))
    )
    keyword_args = tuple(as_expr(interp, one, node) for one in keywords.values())
    kind = origin_kind(name, len(args) + len(keywords))
    origins = frozenset({Origin(kind, f"{name}", place)}) if kind else frozenset[Origin]()
    return Col(expr=Expr("call", name, (*args, *keyword_args), place, origins=origins))


def _flat(arguments: list[Value]) -> list[Value]:
    found: list[Value] = []
    for one in arguments:
        if isinstance(one, Items) and one.kind in {"list", "tuple"}:
            found.extend(one.items)
        else:
            found.append(one)
    return found


def _argument(interp: Interpreter, value: Value, node: ast.AST, *, literal: bool = False) -> Expr:
    text = plain(value) if isinstance(value, Text) else None
    if text is not None and not literal:
        table, _, last = text.lower().rpartition(".")
        if last == "*":
            return Expr("star", "*", place=interp.place(node))
        return Expr("column", last, place=interp.place(node), table=table)
    return as_expr(interp, value, node)


def column_of(interp: Interpreter, value: Value, node: ast.AST) -> Expr:
    """Return what `select("a")` or `select(F.col("a"))` means by an argument."""
    return _argument(interp, value, node)


def operation(interp: Interpreter, name: str, values: list[Value], node: ast.AST) -> Value:
    """Combine columns by an operator."""
    return Col(expr=Expr("op", name, tuple(as_expr(interp, one, node) for one in values), interp.place(node)))


def method(
    interp: Interpreter, column: Col, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Call a method of a Column."""
    place = interp.place(node)
    if name in {"alias", "name"}:
        return Col(expr=column.expr, name=column_name(arguments[0] if arguments else None) or column.name)
    if name in {"cast", "astype"}:
        kind = (plain(arguments[0]) or "").lower() if arguments else ""
        kind = kind or (
            arguments[0].name.rpartition(".")[2].removesuffix("()").removesuffix("Type").lower() if arguments else ""
        )
        kind = re.sub(r"type\W*$", "", kind)
        return Col(expr=Expr("call", f"cast_{kind or 'unknown'}", (column.expr,), place), name=column.name)
    if name == "over" and arguments:
        spec = arguments[0]
        inner = column.expr
        if isinstance(spec, WindowSpec):
            return Col(
                expr=Expr(
                    "window", inner.name, (inner,), inner.place, partition_by=spec.partition_by, order_by=spec.order_by
                )
            )
        return Col(
            expr=Expr(
                "window", inner.name, (inner,), inner.place, order_by=(Order(Expr("other", "unknown", place=place)),)
            )
        )
    if name in {"desc", "asc", "desc_nulls_last", "desc_nulls_first", "asc_nulls_last", "asc_nulls_first"}:
        return Col(expr=Expr("call", "desc" if name.startswith("desc") else "asc", (column.expr,), place))
    if name in {"isNull", "isNotNull"}:
        null = Expr("literal", "none", place=place)
        expr = Expr("op", "is", (column.expr, null), place)
        return Col(expr=expr if name == "isNull" else Expr("op", "not", (expr,), place))
    if name == "when":
        return Col(
            expr=Expr("case", "case", (*column.expr.args, *(as_expr(interp, one, node) for one in arguments)), place)
        )
    if name == "otherwise":
        return Col(
            expr=Expr("case", "case", (*column.expr.args, *(as_expr(interp, one, node) for one in arguments)), place)
        )
    if name in _METHODS:
        values = _flat(arguments) if name == "isin" else arguments
        args = (column.expr, *(as_expr(interp, one, node) for one in values))
        if name == "isin" and node.args:  # df[~df["id"].isin(known["id"])] asks what `known` reads
            args += tuple(Expr("query", place=place, query=query) for query in _asked(interp, node.args[0], 2))
        return Col(expr=Expr("op", _METHODS[name], args, place))
    if name in {"getItem", "getField", "substr", "str", "dt"}:
        return Col(expr=Expr("call", name.lower(), (column.expr,), place))
    if name == "unique":
        return Value(origins=origins_of(column))
    if arguments and isinstance(arguments[0], Function) and name in {"apply", "map", "transform"}:
        applied = call_udf(interp, arguments[0], [column], node)
        return applied if isinstance(applied, Col) else column
    args = (column.expr, *(as_expr(interp, one, node) for one in arguments))
    newest = _newest(interp, column, node) if name == "max" and not arguments else frozenset()
    return Col(expr=Expr("call", name.lower(), args, place, origins=newest), origins=newest)


def _newest(interp: Interpreter, column: Col, node: ast.Call) -> Origins:
    """Return the watermark that pandas takes from a table: pd.read_sql("SELECT … FROM t", con)["updated_at"].max()."""
    asked = [column.read] if column.read is not None else _asked(interp, node.func, 0)
    tables = asked[0].tables() if len(asked) == 1 else ()
    if len(tables) != 1 or column.expr.kind != "column":
        return frozenset()
    return frozenset({Origin("watermark", f"MAX({column.expr.name})", interp.place(node), table=tables[0])})


def _asked(interp: Interpreter, node: ast.AST, deep: int) -> list[Query]:
    """Return the queries of the frames that an expression is made of, also through variables: set(known["id"])."""
    found: list[Query] = []
    for name in dict.fromkeys(one.id for one in ast.walk(node) if isinstance(one, ast.Name)):
        value = interp.scope.get(name)
        frames = [one.query for one in alternatives(value) if isinstance(one, Frame)]
        found.extend(frames)
        if not frames and deep:
            made = interp.assignments.get(name)
            found.extend(_asked(interp, made, deep - 1) if made is not None else ())
    return found[:3]


def window_method(interp: Interpreter, spec: WindowSpec, name: str, arguments: list[Value], node: ast.AST) -> Value:
    """Window.partitionBy(...).orderBy(...)."""
    terms = [_argument(interp, one, node) for one in _flat(arguments)]
    if name == "partitionBy":
        return replace(spec, partition_by=tuple(terms))
    if name == "orderBy":
        return replace(spec, order_by=tuple(order_of(term) for term in terms))
    return spec


def order_of(expr: Expr) -> Order:
    """Return a term of an ORDER BY: `F.col("a").desc()`."""
    if expr.kind == "call" and expr.name in {"asc", "desc"} and expr.args:
        return Order(expr.args[0], descending=expr.name == "desc")
    return Order(expr)


def _udf(interp: Interpreter, arguments: list[Value], node: ast.Call) -> Value:
    """F.udf(function): calling it gives a column with the origins of what the function asks."""
    if arguments and isinstance(arguments[0], Function):
        return replace(arguments[0], decorators=(*arguments[0].decorators, "udf"))
    return Value(name="udf")


def call_udf(interp: Interpreter, function_: Function, arguments: list[Value], node: ast.Call) -> Value:
    """Call a user-defined function on columns."""
    before, interp.state.inside = interp.state.inside, "udf"
    try:
        result = interp.call_function(function_, [Value(name="value") for _ in arguments] or [Value()], {}, node)
    finally:
        interp.state.inside = before
    unsteady: Origins = frozenset(one for one in origins_of(result) if one.kind != "parameter")
    args = tuple(_argument(interp, one, node) for one in _flat(arguments))
    return Col(expr=Expr("call", function_.name.lower(), args, interp.place(node), origins=unsteady))
