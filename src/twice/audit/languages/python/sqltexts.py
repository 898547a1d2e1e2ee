"""Texts of a Python file as SQL: pieces become lines, values become holes."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from twice.audit.expressions import Expr, Origin
from twice.audit.languages.python.values import Choice, Col, Const, Entries, Items, Piece, Text, Value, origins_of
from twice.audit.languages.sql.convert import Converter
from twice.audit.languages.sql.parsing import parsed, tokenized
from twice.audit.languages.sql.sources import SqlText, hole_name
from twice.audit.languages.templates import fill
from twice.audit.places import Place

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def as_expr(interp: Interpreter, value: Value, node: ast.AST) -> Expr:
    """Return a Python value as an expression: a literal, a column, or something with origins."""
    place = interp.place(node)
    if isinstance(value, Col):
        return value.expr
    if isinstance(value, Const):
        return Expr("literal", str(value.value), value=value.value, place=place)
    if isinstance(value, Text):
        plain = value.plain
        if plain is not None:
            return Expr("literal", plain, value=plain, place=place)
        return Expr("python", value.shown[:80], place=place, origins=origins_of(value))
    if isinstance(value, Items):
        return Expr(
            "other",
            "list",
            tuple(as_expr(interp, item, node) for item in value.items[:20]),
            place,
            origins=value.origins,
        )
    if isinstance(value, Choice) and len(value.options) == 1 and not value.origins:
        return as_expr(interp, value.options[0], node)
    return Expr("python", value.name, place=place, origins=origins_of(value))


def render(interp: Interpreter, text: Text, node: ast.AST, given: Value | None = None) -> SqlText:
    """Turn a text into SQL; `given` are the values for its %s, ? and :name placeholders."""
    written: list[str] = []
    lines: list[int] = []
    holes: dict[int, Expr] = {}
    fresh = True
    for piece in text.pieces:
        if isinstance(piece, Piece):
            for index, part in enumerate(piece.text.split("\n")):
                if index or fresh:
                    if index:
                        written.append("\n")
                    lines.append(
                        piece.lines[min(index, len(piece.lines) - 1)] if piece.lines else interp.place(node).line
                    )
                    fresh = False
                elif _comes_from_elsewhere(piece, lines, written):
                    written.append("\n")
                    lines.append(piece.lines[0])
                elif part.strip() and written and written[-1].strip(" ") == "" and piece.lines:
                    lines[-1] = piece.lines[0]
                written.append(part)
        else:
            if fresh:
                lines.append(interp.place(node).line)
                fresh = False
            number = len(holes)
            expr = as_expr(interp, piece, node)
            if expr.kind == "literal":
                expr = Expr("python", expr.name, place=expr.place)
            holes[number] = replace(expr, place=Place(lines[-1]))
            written.append(hole_name(number))
    source = "".join(written)
    filled = (
        fill(source, first_hole=len(holes)) if any(mark in source for mark in ("{{", "{%", "%", "${", ":'")) else None
    )
    if filled is not None:
        if filled.logical_dates:
            interp.job.orchestration.uses_logical_date = True
        for number, hole in filled.holes.items():
            line = lines[min(hole.place.line, len(lines)) - 1] if lines else hole.place.line
            origins = frozenset(replace(origin, place=Place(line)) for origin in hole.origins)
            holes[number] = replace(hole, place=Place(line), origins=origins)
        source = filled.text
    if given is not None:
        source = _named(interp, source, holes, given, node)
        _give(interp, holes, given, node)
    return SqlText(source, lines, text.column, holes)


def _comes_from_elsewhere(piece: Piece, lines: list[int], written: list[str]) -> bool:
    """Return whether a condition that is put into a statement stands on another line of the file, which then counts."""
    first = piece.text.partition("\n")[0]
    if not piece.lines or not lines or piece.lines[0] == lines[-1] or not _CONDITION.search(first):
        return False
    return "".join(written).count("'") % 2 == 0


_CONDITION = re.compile(r"[\w)\]\"`]\s*([<>]=?|=)\s*\S.*\w|\bbetween\b", re.IGNORECASE)


def _named(interp: Interpreter, source: str, holes: dict[int, Expr], given: Value, node: ast.AST) -> str:
    """Put the values of `:name` placeholders into the text, where it matters what they are."""
    if isinstance(given, Items) and given.items and isinstance(given.items[0], (Entries, Items)):
        given = given.items[0]
    if isinstance(given, Items):
        return _positional(interp, source, holes, given, node)
    if not isinstance(given, Entries):
        return source
    for name, value in given.items.items():
        placeholder = re.compile(rf"(?<![:\w]):{re.escape(name)}\b")
        if placeholder.search(source) and any(origin.kind != "parameter" for origin in origins_of(value)):
            number = max(holes, default=-1) + 1
            holes[number] = as_expr(interp, value, node)
            source = placeholder.sub(hole_name(number), source)
    return source


def _positional(interp: Interpreter, source: str, holes: dict[int, Expr], given: Items, node: ast.AST) -> str:
    """Put the values of `?` placeholders into the text, where it matters what they are."""
    parts = re.split(r"\?(?![|&?])", source)
    if len(parts) - 1 != len(given.items):
        return source
    written = parts[0]
    for value, part in zip(given.items, parts[1:], strict=True):
        if any(origin.kind != "parameter" for origin in origins_of(value)):
            number = max(holes, default=-1) + 1
            holes[number] = as_expr(interp, value, node)
            written += hole_name(number) + part
        else:
            written += "?" + part
    return written


def _give(interp: Interpreter, holes: dict[int, Expr], given: Value, node: ast.AST) -> None:
    """Put the values that are bound to placeholders into their holes."""
    if isinstance(given, Items) and given.items and all(isinstance(item, (Items, Entries)) for item in given.items):
        given = given.items[0]
    if isinstance(given, Items):
        waiting = list(given.items)
        for number, hole in sorted(holes.items()):
            if hole.kind == "param" and hole.name == "?" and waiting:
                holes[number] = _bound(interp, waiting.pop(0), hole, node)
    elif isinstance(given, Entries):
        for number, hole in holes.items():
            if hole.kind == "param" and hole.name in given.items:
                holes[number] = _bound(interp, given.items[hole.name], hole, node)


def _bound(interp: Interpreter, value: Value, hole: Expr, node: ast.AST) -> Expr:
    expr = as_expr(interp, value, node)
    if expr.kind == "literal" or expr.origins:
        return replace(expr, place=hole.place) if expr.kind != "literal" else expr
    return replace(hole, origins=frozenset({Origin("parameter", value.name or hole.name, hole.place)}))


def condition(interp: Interpreter, text: Text, node: ast.AST) -> Expr:
    """Read a text as a SQL expression: `df.where("a = 1")`, `F.expr("…")`."""
    source = render(interp, text, node)
    place = interp.place(node)
    if not source.text.strip():
        return Expr("other", place=place)
    padded, first = _selected(source)
    if first is not None:
        return Converter(padded, place).expr(first, place)
    return Expr("other", "sql", place=place, origins=origins_of(text))


def _selected(source: SqlText) -> tuple[SqlText, exp.Expression | None]:
    """Parse a text as the one column of a query; return that query's text, too."""
    padded = SqlText("SELECT " + source.text, source.lines, max(1, source.column - 7), source.holes)
    return padded, _first_column(padded.text)


@lru_cache(maxsize=512)
def _first_column(text: str) -> exp.Expression | None:
    """Parse a query, and return its first column; the same short texts (`rn = 1`) stand in many files."""
    tokens = tokenized(text, "databricks")
    tree = parsed(SqlText(text), "databricks", tokens) if tokens else None
    columns = tree.expressions if isinstance(tree, exp.Select) else []
    return columns[0] if columns else None


def expression_and_alias(interp: Interpreter, text: Text, node: ast.AST) -> tuple[Expr, str]:
    """Read `amount * 2 AS doubled`."""
    source = render(interp, text, node)
    padded, first = _selected(source)
    if first is not None:
        expr = Converter(padded, interp.place(node)).expr(first, interp.place(node))
        alias = first.alias if isinstance(first, exp.Alias) else expr.name if expr.kind in {"column", "star"} else ""
        return expr, alias.lower()
    return Expr("other", "sql", place=interp.place(node), origins=origins_of(text)), ""
