"""Branches that run at times only, and tests whose outcome is known, if only by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twice.audit.languages.python.values import Value, constant

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_PLAIN = (ast.Name, ast.Attribute, ast.Constant)


def _outcome(interp: Interpreter, test: ast.expr) -> bool | None:
    """Return how a simple test ends with what is known, if only by default: `mode == "truncate"`, `not append`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, _PLAIN):
        inner = constant(interp.eval(test.operand))
        return not inner if isinstance(inner, bool) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        return None
    if not isinstance(test.left, _PLAIN) or not isinstance(test.comparators[0], _PLAIN):
        return None
    left, right = constant(interp.eval(test.left)), constant(interp.eval(test.comparators[0]))
    if left is None or right is None:
        return None
    return (left == right) is isinstance(test.ops[0], ast.Eq)


@contextmanager
def branch(interp: Interpreter, test: Value, source: str, node: ast.If, *, taken: bool) -> Iterator[None]:
    """Know that what follows runs at times only; a test whose outcome is known, if only by default, is none."""
    outcome = _outcome(interp, node.test)
    if (constant(test) if outcome is None else outcome) is taken:
        yield
        return
    interp.state.branches.append(f"{node.lineno}{'' if taken else ' else'}:{source}")
    yield
    interp.state.branches.pop()
