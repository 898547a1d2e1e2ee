"""What the expressions of a file stand for."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twice.audit.languages.python import calls
from twice.audit.languages.python.conditions import asked_for_missing, asked_for_present
from twice.audit.languages.python.operators import binary, compare, subscript, unary
from twice.audit.languages.python.pieces import inlined, text_value
from twice.audit.languages.python.scopes import Chain
from twice.audit.languages.python.texts import literal_lines
from twice.audit.languages.python.values import (
    NONE,
    Choice,
    Const,
    Entries,
    Function,
    Items,
    Name,
    Origins,
    Piece,
    Rows,
    Text,
    Value,
    as_fallback,
    is_known,
    made_of,
    merged,
    origins_of,
    plain,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_BUILTINS = frozenset(dir(builtins))


def _constant(interp: Interpreter, node: ast.Constant) -> Value:
    if isinstance(node.value, str):
        lines = (
            [interp.state.override.line] * (node.value.count("\n") + 1)
            if interp.state.override
            else literal_lines(node, interp.lines)
        )
        return Text(pieces=[Piece(node.value, lines)], column=_text_column(interp, node))
    return Const(value=node.value)


def _text_column(interp: Interpreter, node: ast.expr) -> int:
    source = interp.lines[node.lineno - 1] if 0 < node.lineno <= len(interp.lines) else ""
    rest = source[node.col_offset : node.col_offset + 6].lstrip("rRfFbBuU")
    prefix = 6 - len(rest) if len(source) >= node.col_offset + 6 else 0
    return node.col_offset + 1 + prefix + (3 if rest.startswith(('"""', "'''")) else 1)


def _joinedstr(interp: Interpreter, node: ast.JoinedStr) -> Value:
    lines = [interp.place(node).line] * 500 if interp.state.override else literal_lines(node, interp.lines)
    pieces: list[Piece | Value] = []
    at = 0
    for part in node.values:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            count = part.value.count("\n")
            pieces.append(Piece(part.value, lines[at : at + count + 1] or [node.lineno]))
            at = min(at + count, max(0, len(lines) - 1))
        elif isinstance(part, ast.FormattedValue):
            value = interp.eval(part.value)
            if not value.name:
                value = replace(value, name=interp.source(part.value)[:60])
            pieces.extend(inlined(value, lines[at] if at < len(lines) else node.lineno))
    return Text(pieces=pieces, column=_text_column(interp, node))


def _name(interp: Interpreter, node: ast.Name) -> Value:
    found = interp.scope.get(node.id)
    if found is not None:
        return found
    if interp.star_functions and node.id not in _BUILTINS | {"spark"}:
        return Name(dotted=f"pyspark.sql.functions.{node.id}", name=node.id)
    if node.id == "spark" or node.id in _BUILTINS:
        return Name(dotted=node.id, name=node.id)
    if node.id in {"dbutils", "sc", "sqlContext", "glueContext", "glue_context", "context"}:
        return Name(dotted=node.id, name=node.id)
    if interp.star_functions and node.id in {"sum", "max", "min", "round", "abs"}:
        return Name(dotted=f"pyspark.sql.functions.{node.id}", name=node.id)
    if node.id in _FROM_ELSEWHERE:
        return Name(dotted=_FROM_ELSEWHERE[node.id], name=node.id)
    return Value(name=node.id)


# What a notebook that is run first (%run ./imports) has imported, as it is called everywhere.
_FROM_ELSEWHERE = {
    "DeltaTable": "delta.tables.DeltaTable",
    "Window": "pyspark.sql.Window",
    "F": "pyspark.sql.functions",
} | {
    name: f"pyspark.sql.functions.{name}"
    for name in ("col", "lit", "row_number", "current_timestamp", "current_date", "monotonically_increasing_id", "desc")
}


def _attribute(interp: Interpreter, node: ast.Attribute) -> Value:
    return calls.attribute(interp, interp.eval(node.value), node)


def _list(interp: Interpreter, node: ast.List | ast.Tuple | ast.Set) -> Value:
    items: list[Value] = []
    for one in node.elts:
        if isinstance(one, ast.Starred):
            value = interp.eval(one.value)
            items.extend(value.items if isinstance(value, Items) else [Value(origins=origins_of(value))])
        else:
            items.append(interp.eval(one))
    kind = {ast.Tuple: "tuple", ast.Set: "set"}.get(type(node), "list")
    return Items(items=items, kind=kind, name=interp.source(node)[:60])


def _dict(interp: Interpreter, node: ast.Dict) -> Value:
    found = Entries()
    for key, value in zip(node.keys, node.values, strict=True):
        inner = interp.eval(value)
        if key is None:
            if isinstance(inner, Entries):
                found.items.update(inner.items)
            continue
        text = plain(interp.eval(key))
        if text is not None:
            found.items[text] = inner
        else:
            found.origins |= origins_of(inner)
    return found


def _boolop(interp: Interpreter, node: ast.BoolOp) -> Value:
    values = [interp.eval(one) for one in node.values]
    if isinstance(node.op, ast.Or) and len(values) > 1:
        found = values[0]
        for one in values[1:]:
            first_known = isinstance(found, Const) and found.value is None
            found = as_fallback(one) if first_known else merged(found, as_fallback(one) if not is_known(found) else one)
        return found
    origins: Origins = NONE
    for one in values:
        origins |= origins_of(one)
    return Value(origins=origins, name=interp.source(node)[:60])


def _ifexp(interp: Interpreter, node: ast.IfExp) -> Value:
    interp.eval(node.test)
    body, orelse = interp.eval(node.body), interp.eval(node.orelse)
    asked = set(asked_for_missing(node.test))
    present = set(asked_for_present(node.test))
    # Where both sides ask the clock, neither stands in for a date that is given.
    if asked and not _asks_clock(orelse):
        body = as_fallback(body)
    if present and not _asks_clock(body):
        orelse = as_fallback(orelse)
    return merged(body, orelse)


def _asks_clock(value: Value) -> bool:
    return any(origin.kind == "clock" and not origin.fallback for origin in origins_of(value))


def _namedexpr(interp: Interpreter, node: ast.NamedExpr) -> Value:
    value = interp.eval(node.value)
    interp.assign(node.target, value, node)
    return value


def condition(interp: Interpreter, test: Value, node: ast.AST) -> None:
    """Note clocks and random numbers that decide a branch."""
    origins = frozenset(origin for origin in origins_of(test) if origin.kind in {"clock", "random"})
    if origins:
        interp.use(origins, "condition", node)


def item_of(interp: Interpreter, over: Value) -> Value:
    """Return what one item of a value may be."""
    if isinstance(over, Items) and over.items:
        options = over.items[:8]
        found = options[0]
        for one in options[1:]:
            found = merged(found, one)
        return found
    if isinstance(over, Entries) and over.items:
        return Choice(options=[text_value(key) for key in list(over.items)[:8]])
    if isinstance(over, Choice):
        return item_of(interp, over.options[0])
    return made_of(Value(origins=origins_of(over), name=over.name), over if isinstance(over, Rows) else None)


def _comprehension(interp: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, kind: str) -> Value:
    before = dict(interp.scope.names)
    origins: Origins = NONE
    over: Value = Value()
    for generator in node.generators:
        over = interp.eval(generator.iter)
        if isinstance(over, Items) and over.kind == "set" and kind == "list":
            origins |= interp.origin("set", interp.source(generator.iter), generator.iter)
        origins |= origins_of(over) if not isinstance(over, (Items, Entries)) else NONE
        interp.assign(generator.target, item_of(interp, over), node)
        for test in generator.ifs:
            condition(interp, interp.eval(test), test)
    items: list[Value]
    if isinstance(over, Items) and 0 < len(over.items) <= 12 and len(node.generators) == 1:
        items = []
        for one in over.items:
            interp.assign(node.generators[0].target, one, node)
            items.append(interp.eval(node.elt))
    else:
        items = [interp.eval(node.elt)]
    interp.scope.names = before
    return Items(items=items, kind=kind, origins=origins, name=interp.source(node)[:60])


def _listcomp(interp: Interpreter, node: ast.ListComp) -> Value:
    return _comprehension(interp, node, "list")


def _setcomp(interp: Interpreter, node: ast.SetComp) -> Value:
    return _comprehension(interp, node, "set")


def _dictcomp(interp: Interpreter, node: ast.DictComp) -> Value:
    before = dict(interp.scope.names)
    origins: Origins = NONE
    for generator in node.generators:
        over = interp.eval(generator.iter)
        interp.assign(generator.target, item_of(interp, over), node)
    key = plain(interp.eval(node.key))
    value = interp.eval(node.value)
    interp.scope.names = before
    return Entries(items={key: value} if key else {}, origins=origins | origins_of(value))


def _lambda(interp: Interpreter, node: ast.Lambda) -> Value:
    return Function(node=node, env=Chain(interp.scope), name="lambda")


def _await(interp: Interpreter, node: ast.Await) -> Value:
    return interp.eval(node.value)


def _yield(interp: Interpreter, node: ast.Yield) -> Value:
    return interp.eval(node.value) if node.value is not None else Value()


EXPRESSIONS: dict[type[ast.expr], Callable[[Interpreter, Any], Value]] = {
    ast.Constant: _constant,
    ast.JoinedStr: _joinedstr,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: calls.call,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.BoolOp: _boolop,
    ast.IfExp: _ifexp,
    ast.NamedExpr: _namedexpr,
    ast.BinOp: binary,
    ast.UnaryOp: unary,
    ast.Compare: compare,
    ast.Subscript: subscript,
    ast.ListComp: _listcomp,
    ast.SetComp: _setcomp,
    ast.GeneratorExp: _listcomp,
    ast.DictComp: _dictcomp,
    ast.Lambda: _lambda,
    ast.Await: _await,
    ast.Starred: _await,
    ast.Yield: _yield,
}
