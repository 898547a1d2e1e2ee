"""Rows that Python asks for before it inserts them: is there a test between that lets pass only what is missing?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr, bounds
from twice.audit.languages.python.conditions import ends
from twice.audit.languages.python.presence import Presence
from twice.audit.model import Mode, Write, same_table
from twice.audit.queries import Query

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

Parents = dict[int, ast.AST]

_ROUTINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign)
_GROWS = frozenset({"append", "add"})
_NARROWS = re.compile(r"\.(filter|filter_by|where|get|get_or_none)\(")
_MODEL_ASKS = frozenset({"query", "select", "get"})
_MANAGERS = frozenset({"query", "objects", "select", "get_or_none"})
# Web frameworks: a handler answers one request, and no scheduler runs it again.
_WEB = re.compile(r"^(flask|fastapi|starlette|quart|sanic|rest_framework|django\.(views|http|shortcuts|urls))\b")


def is_looked_up(interp: Interpreter, write: Write, node: ast.AST) -> bool:
    """Return whether an INSERT only runs where the file has asked its table for the row, and found none."""
    if write.mode is not Mode.APPEND:
        return False
    return any(
        _only_missing(interp.parents, asks, node, narrowed=bool(_filters(query)))
        for asks, query in interp.asked
        if _asks_for_row(query, write)
    )


def is_object_looked_up(interp: Interpreter, model: str, node: ast.AST) -> bool:
    """Return the same for an object that is added to a session: `session.query(Order).filter_by(…).first()`."""
    if any(_WEB.match(one) for one in interp.job.imports):
        return False
    routine = _routine(interp.parents, node)
    return routine is not None and any(
        _only_missing(interp.parents, asks, node, narrowed=_is_narrowed(interp, asks))
        for asks in ast.walk(routine)
        if _asks_model(asks, model)
    )


def _asks_for_row(query: Query, write: Write) -> bool:
    """Return whether a query asks the target alone, and by a column that is inserted, as far as its columns are known."""
    tables = query.tables()
    if len(tables) != 1 or not same_table(tables[0], write.target.name):
        return False
    if any(True for column in query.columns for _ in column.expr.calls("max", "min")):
        return False
    filters = _filters(query)
    if not filters:
        return True  # all keys at once
    rows = write.query.columns if write.query is not None and write.literal_rows else []
    seeds = bool(rows) and all(column.expr.is_constant for column in rows)
    return any(
        bound.op == "="
        and (seeds or not bound.value.is_constant)
        and (not write.columns or bound.column in write.columns)
        for part in filters
        for bound in bounds(part)
    )


def _filters(query: Query) -> list[Expr]:
    return [part for one in query.walk() for part in one.filters]


def _asks_model(node: ast.AST, model: str) -> bool:
    """Return whether it asks for objects: `session.query(Order)`, `select(Order)`, `Order.objects`, `Order.query`."""
    if isinstance(node, ast.Attribute):
        return node.attr in _MANAGERS and isinstance(node.value, ast.Name) and node.value.id == model
    if not isinstance(node, ast.Call) or not node.args:
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0].value if isinstance(node.args[0], ast.Attribute) else node.args[0]
    return called in _MODEL_ASKS and isinstance(first, ast.Name) and first.id == model


def _is_narrowed(interp: Interpreter, asks: ast.AST) -> bool:
    node: ast.AST | None = asks
    while node is not None and not isinstance(node, ast.stmt):
        node = interp.parents.get(id(node))
    tested = node.test if isinstance(node, (ast.If, ast.While)) else node
    return isinstance(tested, (ast.expr, *_SIMPLE)) and bool(_NARROWS.search(ast.unparse(tested)))


def _only_missing(parents: Parents, asks: ast.AST, node: ast.AST, *, narrowed: bool) -> bool:
    """Return whether a call, or what fills the list that it is given, only runs where nothing was found."""
    routine = _routine(parents, node)
    if routine is None or _routine(parents, asks) is not routine:
        return False
    if _is_guarded(parents, asks, node, narrowed=narrowed):
        return True
    given = {one.id for part in getattr(node, "args", []) for one in ast.walk(part) if isinstance(one, ast.Name)}
    for name in given:
        fills = [one for one in ast.walk(routine) if _grows(one, name)]
        if fills and all(_is_guarded(parents, asks, one, narrowed=narrowed) for one in fills):
            return True
    return False


def _grows(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _GROWS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name
    )


def _is_guarded(parents: Parents, asks: ast.AST, node: ast.AST, *, narrowed: bool) -> bool:
    """Go through all that must run before a node, and look for a test that what is there does not pass."""
    presence: Presence | None = None
    for step, taken in _before(parents, node):
        tested = step.test if isinstance(step, ast.If) else step
        if presence is None and isinstance(tested, (ast.expr, *_SIMPLE)) and asks in ast.walk(tested):
            presence = Presence(asks, narrowed=narrowed)
        if presence is None:
            continue
        if isinstance(step, ast.If):
            there, passed = presence.tells(step.test), _passed(step, taken)
            if there is not None and passed is not None and there is not passed:
                return True
        if taken is None:
            presence.pass_by(step)
    return False


def _passed(step: ast.If, taken: bool | None) -> bool | None:  # noqa: FBT001 - on which side of the test
    """Return how a test ended if what stands behind it, or inside it, runs; None: that says nothing."""
    if taken is not None:
        return taken
    if ends(step.body):
        return False
    return True if ends(step.orelse) else None


def _before(parents: Parents, node: ast.AST) -> list[tuple[ast.stmt, bool | None]]:
    """Return the statements before a node that always run first; for a test around it also on which side it stands."""
    found: list[tuple[ast.stmt, bool | None]] = []
    child = node
    while not isinstance(child, _ROUTINES) or child is node:
        parent = parents[id(child)]
        block = next((one for one in _blocks(parent) if any(child is inner for inner in one)), None)
        if block is not None:
            earlier = [(one, None) for one in _flat(block[: next(i for i, one in enumerate(block) if one is child)])]
            found = [*earlier, *found]
        if isinstance(parent, ast.If) and block is not None:
            found.insert(0, (parent, block is parent.body))
        child = parent
    return found


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _flat(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, with what stands in `with` and `try`."""
    for statement in block:
        if isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)):
            yield from _flat(statement.body)
        else:
            yield statement


def _routine(parents: Parents, node: ast.AST) -> ast.AST | None:
    """Return the function that a node stands in; None for code of another file."""
    found = parents.get(id(node))
    while found is not None and not isinstance(found, _ROUTINES):
        found = parents.get(id(found))
    return found
