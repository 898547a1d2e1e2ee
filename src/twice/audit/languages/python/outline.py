"""What a whole tree holds, for those who must look beyond what has run; it is walked once."""

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


def parents(tree: ast.Module) -> dict[int, ast.AST]:
    """Return what each node stands in, by the id of the node."""
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


class Settings:
    """Where dictionaries first set each of their keys: `{"retries": 2}`, `dict(retries=2)`."""

    def __init__(self, tree: ast.Module) -> None:
        self._rest = ast.walk(tree)
        self._found: dict[str, Place] = {}

    def place(self, name: str) -> Place | None:
        """Return where a key is first set; the tree is walked as far as that, and from there the next time."""
        while name not in self._found:
            node = next(self._rest, None)
            if node is None:
                return None
            for key, place in _entries(node):
                self._found.setdefault(key, place)
        return self._found[name]


def _entries(node: ast.AST) -> Iterator[tuple[str, Place]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, Place(key.lineno, key.col_offset + 1, value.end_lineno or 0)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield keyword.arg, Place(keyword.value.lineno, keyword.value.col_offset + 1)


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
