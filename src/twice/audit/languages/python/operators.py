"""Operators and subscripts, of texts, columns, frames, tasks and plain values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr, OriginKind
from twice.audit.languages.python import columns, frames, names, orchestration
from twice.audit.languages.python.pieces import goes_on, inlined, percent
from twice.audit.languages.python.values import (
    NONE,
    Choice,
    Col,
    Const,
    Entries,
    Frame,
    Instance,
    Items,
    Origins,
    Rows,
    Text,
    Value,
    alternatives,
    made_of,
    origins_of,
    plain,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.FloorDiv: "/", ast.BitAnd: "and", ast.BitOr: "or",
    ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def binary(interp: Interpreter, node: ast.BinOp) -> Value:
    """Evaluate `left + right` and the like."""
    left, right = interp.eval(node.left), interp.eval(node.right)
    if isinstance(left, (Text, Choice)) or isinstance(right, Text):
        text = text_operation(interp, node, left, right)
        if text is not None:
            return text
    if isinstance(left, Col) or isinstance(right, Col):
        return columns.operation(interp, _OPERATORS.get(type(node.op), "op"), [left, right], node)
    if isinstance(node.op, (ast.RShift, ast.LShift)):
        return orchestration.follows(interp, left, right, backwards=isinstance(node.op, ast.LShift))
    mine, theirs = origins_of(left), origins_of(right)
    if isinstance(node.op, ast.Sub) and _clocks(mine) and _clocks(theirs):
        interp.use(_clocks(mine) | _clocks(theirs), "timer", node)
        return Value(name=interp.source(node)[:60])
    if isinstance(left, Items) and isinstance(right, Items) and isinstance(node.op, ast.Add):
        return Items(items=[*left.items, *right.items], kind=left.kind)
    if isinstance(left, Items) and left.kind == "set":
        return Items(items=left.items, kind="set", origins=mine | theirs)
    if isinstance(left, Const) and isinstance(right, Const):
        return _computed(node.op, left, right)
    if isinstance(left, Instance) and left.kind == "path" and isinstance(node.op, ast.Div):
        joined = text_operation(
            interp, ast.BinOp(left=node.left, op=ast.Add(), right=node.right), left.attributes["text"], right
        )
        return Instance(kind="path", attributes={"text": joined or left.attributes["text"]}, origins=mine | theirs)
    return Value(origins=mine | theirs, name=interp.source(node)[:60])


def text_operation(interp: Interpreter, node: ast.BinOp, left: Value, right: Value) -> Value | None:
    """Put texts together: `+` and `%`."""
    first = next(iter(alternatives(left)), left)
    if isinstance(node.op, ast.Add) and isinstance(right, Text) and isinstance(left, Choice):
        # What is added after a separator, in a loop, follows the part that ends in one.
        first = next((one for one in alternatives(left) if isinstance(one, Text) and goes_on(one)), first)
    if isinstance(node.op, ast.Add) and (isinstance(first, Text) or isinstance(right, Text)):
        line = getattr(node, "lineno", 1)
        pieces = [*inlined(first, line), *inlined(right, line)]
        return Text(pieces=pieces, column=first.column if isinstance(first, Text) else 1)
    if isinstance(node.op, ast.Mod) and isinstance(first, Text):
        values = right.items if isinstance(right, Items) and right.kind == "tuple" else [right]
        mapping = right.items if isinstance(right, Entries) else {}
        return percent(first, values, mapping, getattr(node, "lineno", 1))
    return None


def unary(interp: Interpreter, node: ast.UnaryOp) -> Value:
    """Evaluate `-x`, `not x`, `~x`."""
    value = interp.eval(node.operand)
    if isinstance(value, Col):
        return columns.operation(interp, "not" if isinstance(node.op, ast.Invert) else "neg", [value], node)
    if isinstance(value, Const) and isinstance(node.op, ast.USub) and isinstance(value.value, (int, float)):
        return Const(value=-value.value)
    return Value(origins=origins_of(value))


def compare(interp: Interpreter, node: ast.Compare) -> Value:
    """Evaluate a comparison."""
    values = [interp.eval(node.left), *(interp.eval(one) for one in node.comparators)]
    if any(isinstance(one, Col) for one in values) and len(values) == 2:
        return columns.operation(interp, _OPERATORS.get(type(node.ops[0]), "op"), values, node)
    origins: Origins = NONE
    for one in values:
        origins |= origins_of(one)
    return Value(origins=origins, name=interp.source(node)[:60])


def subscript(interp: Interpreter, node: ast.Subscript) -> Value:
    """Evaluate `x[key]`."""
    owner = interp.eval(node.value)
    key = interp.eval(node.slice)
    text = plain(key)
    for one in alternatives(owner):
        if isinstance(one, Entries) and text is not None and text in one.items:
            return one.items[text]
        texts = [item for item in one.items.values() if isinstance(item, Text)] if isinstance(one, Entries) else []
        if isinstance(one, Entries) and text is None and 1 < len(texts) == len(one.items) <= 8:
            return Choice(options=list(texts), name=interp.source(node)[:60])  # MODES[env]: any of them
        if (
            isinstance(one, Items)
            and isinstance(key, Const)
            and isinstance(key.value, int)
            and -len(one.items) <= key.value < len(one.items)
        ):
            return one.items[key.value]
        if isinstance(one, Frame):
            return _frame_item(interp, one, key, text, node)
        if isinstance(one, Instance) and text is not None and text in one.attributes:
            return one.attributes[text]
    source = interp.source(node.value)
    if source in {"sys.argv", "os.environ", "environ"}:
        kind: OriginKind = "parameter" if "argv" in source else "environment"
        name = interp.source(node) if text is None or text.isdigit() else text
        return Value(origins=interp.origin(kind, interp.source(node), node), name=name)
    if text is not None and text in names.LOGICAL and ("context" in source or "kwargs" in source):
        interp.job.orchestration.uses_logical_date = True
        return interp.parameter(text, node, "logical date", expression=interp.source(node))
    found = Value(origins=origins_of(owner) | origins_of(key), name=interp.source(node)[:60])
    return made_of(found, owner if isinstance(owner, Rows) else None)


def _frame_item(interp: Interpreter, frame: Frame, key: Value, text: str | None, node: ast.Subscript) -> Value:
    if text is not None:
        newest = NONE if _is_beside(frame, text.lower()) else _watermarks(frame.origins)
        column = Expr("column", text.lower(), place=interp.place(node), table=frame.name, origins=newest)
        return Col(expr=column, read=frame.query, origins=newest)
    if isinstance(key, Col):
        return frames.filtered(interp, frame, key.expr)
    if isinstance(key, Items):
        return frames.selected(interp, frame, [plain(one) or "" for one in key.items], node)
    return Value(origins=frame.origins, name=interp.source(node)[:60])


def _is_beside(frame: Frame, name: str) -> bool:
    """Return whether a column stands in the newest row, but not for how new it is."""
    found = frame.query.definition(name)
    orders = [order.expr.name.lower() for order in frame.query.order_by[:1]]
    return bool(orders) and orders[0] not in {name, found.name.lower() if found is not None else ""}


def _watermarks(origins: Origins) -> Origins:
    return frozenset(origin for origin in origins if origin.kind == "watermark")


def _clocks(origins: Origins) -> Origins:
    return frozenset(origin for origin in origins if origin.kind == "clock")


def _computed(operator: ast.operator, left: Const, right: Const) -> Value:
    one, other = left.value, right.value
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        if isinstance(operator, ast.Add):
            return Const(value=one + other)
        if isinstance(operator, ast.Sub):
            return Const(value=one - other)
        if isinstance(operator, ast.Mult) and abs(one) < 10**9 and abs(other) < 10**9:
            return Const(value=one * other)
    return Value()
