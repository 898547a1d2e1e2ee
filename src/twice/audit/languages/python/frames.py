"""DataFrames: what they are made of, and the queries that stand for them."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from twice.audit.expressions import Expr
from twice.audit.languages.python.sqltexts import as_expr
from twice.audit.languages.python.values import (
    NONE,
    Frame,
    Origins,
    Rows,
    Value,
    origins_of,
)
from twice.audit.places import Place
from twice.audit.queries import Column, Query, Source

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def unknown_frame(name: str, place: Place, origins: Origins = NONE) -> Frame:
    """Return a DataFrame of which only the name is known."""
    source = Source("", name, None, place=place, kind="unknown")
    star = Column("*", Expr("star", "*", place=place))
    return Frame(
        query=Query(columns=[star], sources=[source], place=place, language="dataframe"), origins=origins, name=name
    )


def taken_for_frame(value: Value, place: Place) -> Frame:
    """Return the DataFrame that something unknown must be, because it is used as one; its rows may be known."""
    frame = unknown_frame(value.name, place, origins_of(value))
    if isinstance(value, Rows):
        frame.query.sources = [Source("", value.name, value.frame.query, place=place, kind="query")]
    return frame


def table_frame(
    interp: Interpreter,
    name: str,
    place: Place,
    path: Expr | None = None,
    *,
    kind: str = "table",
    stream: bool = False,
    format_: str = "",
    server: str = "",
) -> Frame:
    """Return the DataFrame of a table or a path."""
    source = Source(name.lower(), "", None, place=place, kind="stream" if stream else kind, path=path, format=format_)  # type: ignore[arg-type]
    source = replace(source, server=server) if server else source
    view = interp.builder.views.get(name.lower())
    if view is not None:
        source = replace(source, name="", query=view, kind="query")
    star = Column("*", Expr("star", "*", place=place))
    return Frame(query=Query(columns=[star], sources=[source], place=place, language="dataframe", streaming=stream))


def derived(frame: Frame, place: Place) -> Query:
    """Return a query over a DataFrame: a new one where SQL would need a sub-query, else a copy."""
    query = frame.query
    settled = (
        query.grouped
        or query.limit is not None
        or query.distinct
        or query.distinct_on is not None
        or query.branches
        or query.sample is not None
        or query.language == "sql"
    )
    if settled or any(node.kind == "window" for column in query.columns for node in column.expr.walk()):
        source = Source("", frame.name, query, place=query.place, kind="query")
        star = Column("*", Expr("star", "*", place=place))
        return Query(
            columns=[star],
            sources=[source],
            place=place,
            language="dataframe",
            streaming=query.streaming,
            watermark=query.watermark,
        )
    return Query(
        columns=list(query.columns), sources=list(query.sources), filters=list(query.filters), order_by=list(query.order_by),
        place=query.place, language=query.language, streaming=query.streaming, watermark=query.watermark,
    )  # fmt: skip


def over(frame: Frame, place: Place) -> Query:
    """Return a query that selects everything from a DataFrame."""
    source = Source("", frame.name, frame.query, place=frame.query.place, kind="query")
    star = Column("*", Expr("star", "*", place=place))
    language: Literal["pandas", "dataframe"] = "pandas" if frame.query.language == "pandas" else "dataframe"
    return Query(
        columns=[star],
        sources=[source],
        place=place,
        language=language,
        streaming=frame.query.streaming,
        watermark=frame.query.watermark,
    )


def filtered(interp: Interpreter, frame: Frame, expr: Expr) -> Frame:
    """df.where(condition)."""
    query = derived(frame, expr.place)
    query.filters.extend(expr.conjuncts())
    return Frame(query=query, origins=frame.origins, name=frame.name)


def selected(interp: Interpreter, frame: Frame, names: list[str], node: ast.AST) -> Frame:
    """df[["a", "b"]]."""
    place = interp.place(node)
    query = over(frame, place)
    query.columns = [Column(name.lower(), Expr("column", name.lower(), place=place), place) for name in names]
    return Frame(query=query, origins=frame.origins, name=frame.name)


def with_column(interp: Interpreter, owner: Value, name: str, value: Value, node: ast.AST) -> Frame:
    """df.withColumn(name, value) and df["name"] = value."""
    frame = owner if isinstance(owner, Frame) else unknown_frame(owner.name, interp.place(node))
    place = interp.place(node)
    query = derived(frame, place)
    expr = as_expr(interp, value, node)
    known = [column for column in query.columns if column.name == name.lower()]
    if known:
        query = over(Frame(query=query, name=frame.name), place)
    query.columns.append(Column(name.lower(), expr, place))
    return Frame(query=query, origins=frame.origins, name=frame.name)
