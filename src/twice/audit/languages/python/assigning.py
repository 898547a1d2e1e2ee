"""Bind names, attributes and items."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.classifying import bounded
from twice.audit.languages.python import frames
from twice.audit.languages.python.values import (
    Choice,
    Col,
    Const,
    Entries,
    Frame,
    Instance,
    Items,
    Name,
    Text,
    Value,
    constant,
    origins_of,
    plain,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_MOST_PIECES = 500
_FRAME_NAME = re.compile(r"^(df|frame|dataframe)\w*$|_(df|frame|dataframe)$")


def assign(interp: Interpreter, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Bind a name, an attribute or an item."""
    if isinstance(target, ast.Name):
        value = _bounded(value)
        if isinstance(value, Choice):
            value = _renamed(value, target.id)
        if (not value.name and not isinstance(value, (Const, Text))) or type(value) is Value:
            value = replace(value, name=target.id)
        if target.id == "spark" and type(value) is Value:  # whatever made it
            value = Name(dotted="spark", name="spark")
        interp.scope.names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        items = value.items if isinstance(value, Items) else []
        starred = any(isinstance(one, ast.Starred) for one in target.elts)
        for index, one in enumerate(target.elts):
            if index < len(items) and not starred:
                assign(interp, one, items[index], node)
            else:
                inner = one.value if isinstance(one, ast.Starred) else one
                assign(interp, inner, Value(origins=origins_of(value), name=interp.source(inner)), node)
    elif isinstance(target, ast.Attribute):
        owner = interp.eval(target.value)
        if isinstance(owner, Instance):
            owner.attributes[target.attr] = value
        elif "autocommit" in target.attr and isinstance(constant(value), bool):
            _set_autocommit(interp, bool(constant(value)))
    elif isinstance(target, ast.Subscript):
        owner = interp.eval(target.value)
        key = interp.eval(target.slice)
        text = plain(key)
        if isinstance(owner, Entries) and text is not None:
            owner.items[text] = value
        elif text is not None and _is_pandas_like(interp, owner):
            whole = owner if isinstance(owner, Frame) else frames.unknown_frame(owner.name, interp.place(node))
            frame = frames.with_column(interp, whole, text, value, node)
            if isinstance(target.value, ast.Name):
                interp.scope.names[target.value.id] = frame
        elif isinstance(owner, Instance) and text is not None:
            owner.attributes[text] = value
        elif text and ("os.environ" in interp.source(target.value) or "conf" in interp.source(target.value)):
            interp.job.settings[text.lower()] = (plain(value) or "").lower()


def _bounded(value: Value) -> Value:
    """Return a value that may be used in the next one, and that in the next, without growing beyond all bounds."""
    if isinstance(value, Col):
        return replace(value, expr=bounded(value.expr))
    if isinstance(value, Text) and len(value.pieces) > _MOST_PIECES:
        return Value(origins=origins_of(value), name=value.name)
    return value


def _is_pandas_like(interp: Interpreter, owner: Value) -> bool:
    """Return whether `x["column"] = …` adds a column: x is a frame, or unknown and called like one."""
    unknown = type(owner) is Value and "pandas" in interp.job.imports
    return isinstance(owner, Frame) or (unknown and bool(_FRAME_NAME.search(owner.name)))


def _set_autocommit(interp: Interpreter, on: bool) -> None:  # noqa: FBT001 - mirrors the attribute
    interp.state.transaction = None if on else interp.builder.new_transaction()
    interp.connections = -1 if on else interp.connections


def _renamed(value: Choice, name: str) -> Choice:
    """Call what is not known by the name that it is given: `batch = sys.argv[1] if … else "first"`."""
    options = [
        replace(one, name=name) if type(one) is Value and not one.name.isidentifier() else one for one in value.options
    ]
    return replace(value, options=options, name=value.name if value.name.isidentifier() else name)
