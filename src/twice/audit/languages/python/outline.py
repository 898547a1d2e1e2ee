"""What a whole tree holds, for those who must look beyond what has run; each is found in one walk."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from twice.audit.places import Place


def assignments(tree: ast.Module) -> dict[str, ast.expr]:
    """Return what is assigned to each name, the deepest and last where there are several."""
    found: dict[str, ast.expr] = {}
    for node in _statements(tree):
        if isinstance(node, ast.Assign):
            found.update((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    return found


def settings(tree: ast.Module) -> dict[str, Place]:
    """Return where dictionaries first set each of their keys: `{"retries": 2}`, `dict(retries=2)`."""
    found: dict[str, Place] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.setdefault(key.value, Place(key.lineno, key.col_offset + 1, value.end_lineno or 0))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            for keyword in node.keywords:
                if keyword.arg is not None:
                    found.setdefault(keyword.arg, Place(keyword.value.lineno, keyword.value.col_offset + 1))
    return found


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements, level by level; what stands inside expressions is left out."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for name in ("body", "handlers", "cases", "orelse", "finalbody"):
            below = getattr(node, name, None)
            if isinstance(below, list):
                waiting.extend(below)
