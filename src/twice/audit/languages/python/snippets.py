"""Nodes of a tree as they are written in their file."""

from __future__ import annotations

import ast


class Snippets:
    """The text of nodes, each asked for once: it is put together only where it is shown."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        # By node: as long as the tree lives, no other node has the same id.
        self._known: dict[int, str] = {}

    def of(self, node: ast.AST, *, foreign: bool) -> str:
        """Return a node as written, in one line; one of another file is `foreign`, and is unparsed."""
        known = self._known.get(id(node))
        if known is not None:
            return known
        text = self._cut(node) if not foreign else None
        if text is None:
            try:
                text = ast.unparse(node)[:200]
            except (ValueError, RecursionError, AttributeError):
                text = ""
        self._known[id(node)] = text
        return text

    def _cut(self, node: ast.AST) -> str | None:
        """Cut a node out of its line: much quicker than unparsing it."""
        line, end = getattr(node, "lineno", None), getattr(node, "end_col_offset", None)
        if line is None or end is None or line != getattr(node, "end_lineno", 0):
            return None
        if not 0 < line <= len(self.lines) or not self.lines[line - 1].isascii():
            return None
        start = int(getattr(node, "col_offset", 0))
        text: str = self.lines[line - 1][start:end]
        return text[:200]
