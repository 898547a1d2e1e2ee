"""sqlglot's trees as our expressions and queries: the places and names in them, and who converts what."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from twice.audit.expressions import Expr, Order
from twice.audit.functions import CLOCKS, RANDOM
from twice.audit.keeping import kept
from twice.audit.languages.sql import selects
from twice.audit.languages.sql.nodes import text_of
from twice.audit.languages.sql.sources import SqlText
from twice.audit.languages.sql.terms import TERMS
from twice.audit.places import Place
from twice.audit.queries import Query, Source

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

_DEEP = 250
_UNSTEADY = CLOCKS | RANDOM


class Converter:
    """Converts the statements of one text."""

    def __init__(self, source: SqlText, first: Place, words: Sequence[Token] = ()) -> None:
        self.source = source
        self.first = first
        self.words = words  # of the statement
        self._deep = 0

    # places -----------------------------------------------------------------------------------------------------
    def place(self, node: exp.Expression | None, default: Place | None = None) -> Place:
        """Find where a node stands: sqlglot knows it for names, literals and calls."""
        inner = node
        for _ in range(9):  # mostly the first name of an expression is its first part
            if not isinstance(inner, exp.Expression):
                break
            meta = inner.meta
            if "line" in meta:
                return self._at(meta)
            inner = inner.args.get("this")
        found = _first_known(node) if node is not None else None
        return self._at(found) if found is not None else default or self.first

    def _at(self, meta: dict[str, Any]) -> Place:
        return self.source.place(meta["line"], meta["col"] - (meta.get("end", 0) - meta.get("start", 0)))

    def token_place(self, name: str, near: Place) -> Place:
        """Return where the next token of a name stands, for calls of which sqlglot does not know it."""
        waiting = self._unsteady.get(name)
        return waiting.popleft() if waiting else near

    @kept
    def _unsteady(self) -> dict[str, deque[Place]]:
        """Where clocks and random numbers stand among the words."""
        found: dict[str, deque[Place]] = {}
        for word in self.words:
            name = word.text.lower()
            if name in _UNSTEADY:
                place = self.source.place(word.line, word.col - len(word.text) + 1)
                found.setdefault(name, deque()).append(place)
        return found

    # names ------------------------------------------------------------------------------------------------------

    def table_name(self, node: exp.Expression | None) -> str:
        """Return a table's dotted name, lower case, with holes readable."""
        if isinstance(node, exp.Schema):
            node = node.this
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Parameter):
                return f"@{node.this.name.lower()}"
            parts = list(node.parts)
            name = ".".join(part.name if isinstance(part, exp.Expression) else str(part) for part in parts)
            if any(isinstance(part, exp.Identifier) and part.args.get("temporary") for part in parts):
                name = f"#{name}"
            if not name and isinstance(node.this, exp.Expression):
                name = text_of(node.this)
            return self.source.readable(name.lower()).replace("__this__", "this")
        if isinstance(node, exp.Parameter):
            return f"@{node.name.lower()}"
        return self.source.readable(text_of(node).lower()) if node is not None else ""

    def name_expr(self, node: exp.Expression | None) -> Expr | None:
        """Return a computed table name or path as an expression that carries its origins."""
        if node is None or not self.source.holes:
            return None
        inner = node.this if isinstance(node, exp.Schema) else node
        text = ".".join(text_of(part) for part in inner.parts) if isinstance(inner, exp.Table) else text_of(inner)
        found = self.source.holes_in(text)
        return Expr("other", "name", tuple(found), self.place(node)) if found else None

    # expressions and queries ------------------------------------------------------------------------------------

    def expr(self, node: object, near: Place | None = None) -> Expr:
        """Convert an expression."""
        near = near or self.first
        if not isinstance(node, exp.Expression):
            return Expr("other", str(node or ""), place=near)
        self._deep += 1
        try:
            if self._deep > _DEEP:
                return Expr("other", "deep", place=near)
            term = TERMS[type(node)]
            if term is None:
                return self.expr(node.this, near)
            if term.placed:
                place = self.place(node, near)
            else:
                meta = node.meta
                place = self._at(meta) if "line" in meta else near
            return term.convert(self, node, place)
        finally:
            self._deep -= 1

    def all(self, nodes: Iterable[object], near: Place) -> tuple[Expr, ...]:
        """Convert all expressions among some things."""
        return tuple([self.expr(node, near) for node in nodes if isinstance(node, exp.Expression)])

    def orders(self, node: exp.Expression | None, near: Place) -> list[Order]:
        """Convert the terms of an ORDER BY."""
        if node is None:
            return []
        return [
            Order(self.expr(term, near), descending=bool(isinstance(term, exp.Ordered) and term.args.get("desc")))
            for term in node.expressions
        ]

    def query(self, node: exp.Expression | None, known: dict[str, Query]) -> Query:
        """Convert a SELECT, UNION, VALUES or table; `known` are the CTEs in sight."""
        self._deep += 1
        try:
            if node is None or self._deep > _DEEP:
                return Query(place=self.first)
            return selects.query(self, node, known)
        finally:
            self._deep -= 1

    def ctes(self, node: exp.Expression, known: dict[str, Query]) -> dict[str, Query]:
        """Convert the WITH of a statement."""
        return selects.ctes(self, node, known)

    def condition(self, node: exp.Expression | None, known: dict[str, Query]) -> Expr:
        """Convert a condition whose sub-queries may use the CTEs in sight."""
        return selects.condition(self, node, known)

    def source_of(self, node: exp.Expression, known: dict[str, Query]) -> Source:
        """Convert what stands after FROM, JOIN or USING."""
        return selects.source_of(self, node, known)


def _first_known(node: exp.Expression) -> dict[str, Any] | None:
    """Return what is known of the first node below, depth first, of which the place is known."""
    stack: list[exp.Expression] = [node]
    while stack:
        one = stack.pop()
        if "line" in one.meta:
            return one.meta
        for value in reversed(one.args.values()):
            if isinstance(value, list):
                stack.extend(below for below in reversed(value) if isinstance(below, exp.Expression))
            elif isinstance(value, exp.Expression):
                stack.append(value)
    return None
