"""Joins and aggregations of DataFrames."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python.columns import _flat
from twice.audit.languages.python.frames import over, unknown_frame
from twice.audit.languages.python.sqltexts import as_expr
from twice.audit.languages.python.values import (
    Col,
    Entries,
    Frame,
    Function,
    Grouped,
    Items,
    Text,
    Value,
    alternatives,
    plain,
    shown,
)
from twice.audit.queries import Column, Source

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def join(
    interp: Interpreter, frame: Frame, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Frame:
    """df.join(other, on, how), and merge of pandas."""
    place = interp.place(node)
    other = next((one for one in alternatives(arguments[0]) if isinstance(one, Frame)), None) or unknown_frame(
        arguments[0].name, place
    )
    on = keywords.get("on") or (arguments[1] if len(arguments) > 1 and name != "crossJoin" else None)
    how = plain(keywords.get("how") or (arguments[2] if len(arguments) > 2 else None)) or (
        "cross" if name == "crossJoin" else "inner"
    )
    condition_: Expr | None = None
    if on is not None:
        columns = [plain(item) for item in _flat([on])] if isinstance(on, (Text, Items)) else []
        if columns and all(columns):
            pairs = [
                Expr(
                    "op",
                    "=",
                    (
                        Expr("column", (text or "").lower(), place=place, table=frame.name),
                        Expr("column", (text or "").lower(), place=place, table=other.name),
                    ),
                    place,
                )
                for text in columns
            ]
            condition_ = pairs[0] if len(pairs) == 1 else Expr("op", "and", tuple(pairs), place)
        elif isinstance(on, Items):
            parts = tuple(as_expr(interp, item, node) for item in on.items)
            condition_ = parts[0] if len(parts) == 1 else Expr("op", "and", parts, place)
        else:
            condition_ = as_expr(interp, on, node)
    kind = next(
        (word for word in ("anti", "semi", "cross", "full", "outer", "right", "left") if word in how.lower()), "inner"
    )
    query = over(frame, place)
    query.sources.append(
        Source(
            "", other.name, other.query, how={"outer": "full"}.get(kind, kind), on=condition_, place=place, kind="query"
        )
    )
    query.streaming = frame.query.streaming or other.query.streaming
    return Frame(query=query, origins=frame.origins | other.origins, name=frame.name)


def grouped_method(
    interp: Interpreter, grouped: Grouped, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """groupBy(...).agg(...)."""
    place = interp.place(node)
    if name == "pivot":
        return replace(grouped, pivot=True)
    frame = grouped.frame
    query = over(frame, place)
    query.grouped = True
    query.pivot = grouped.pivot
    query.group_by = list(grouped.keys)
    query.columns = [Column(key.name, key, key.place) for key in grouped.keys if key.kind == "column"]
    if name in {"agg", "aggregate"}:
        for one in _flat(arguments):
            if isinstance(one, Col):
                query.columns.append(Column(one.name, one.expr, one.expr.place))
            elif isinstance(one, Entries):
                for column, function in one.items.items():
                    call = plain(function) or "agg"
                    query.columns.append(
                        Column(
                            f"{call}({column.lower()})",
                            Expr("call", call, (Expr("column", column.lower(), place=place),), place),
                            place,
                        )
                    )
        for column, value in keywords.items():
            query.columns.append(Column(column.lower(), as_expr(interp, value, node), place))
    elif name in {"count", "sum", "max", "min", "avg", "mean", "first", "last"}:
        for one in _flat(arguments) or [Value()]:
            text = shown(one).lower()
            query.columns.append(
                Column(
                    f"{name}({text})" if text else name,
                    Expr("call", name, (Expr("column", text, place=place),) if text else (), place),
                    place,
                )
            )
    elif name in {
        "apply",
        "applyInPandas",
        "transform",
        "head",
        "cumcount",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
    }:
        if arguments and isinstance(arguments[0], Function):
            interp.call_function(arguments[0], [Value(name="group")], {}, node)
        return Frame(query=over(frame, place), name=frame.name)
    return Frame(query=query, origins=frame.origins, name=frame.name)
