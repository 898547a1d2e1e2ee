"""Spark's analysed plan as plain values: fetched once as text, then read without the JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twice.content.java import query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Node:
    """A node of a plan or of an expression: its class, its own fields, what is below it."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    @property
    def id(self) -> int | None:
        """The number that Spark knows a column by, whatever it is called; None for what is not a column."""
        known = self.fields.get("exprId")
        return int(known["id"]) if isinstance(known, Mapping) else None

    @property
    def name(self) -> str:
        """The name of a column, or of a function."""
        return str(self.fields.get("name", ""))

    def child(self, field: str) -> Node:
        """Return the child that a field refers to."""
        return self.children[int(self.fields[field])]

    def expression(self, field: str) -> Node | None:
        """Return the expression in a field, if there is one."""
        found = self.fields.get(field)
        return tree(found) if found else None

    def expressions(self, field: str) -> list[Node]:
        """Return the expressions of a field that holds several."""
        return [tree(items) for items in self.fields.get(field) or ()]

    def every_expression(self) -> Iterator[Node]:
        """Yield the expressions in all fields, without what is below them."""
        for value in self.fields.values():
            if isinstance(value, list) and value:
                if _is_tree(value):
                    yield tree(value)
                else:
                    yield from (tree(items) for items in value if _is_tree(items))

    def walk(self) -> Iterator[Node]:
        """Yield the node and everything below it; what is inside fields is left out."""
        yield self
        for child in self.children:
            yield from child.walk()


def analysed(df: DataFrame) -> Node:
    """Return the analysed plan of a DataFrame, before any optimisation."""
    return tree(json.loads(str(query_of(df).analyzed().toJSON())))


def tree(items: Sequence[Mapping[str, Any]]) -> Node:
    """Build the tree that Spark wrote as a list, parents before their children."""
    iterator = iter(items)

    def build() -> Node:
        item = next(iterator)
        kind = str(item["class"]).rsplit(".", 1)[-1]
        return Node(kind, item, tuple([build() for _ in range(int(item["num-children"]))]))

    return build()


def alias_of(plan: Node) -> str:
    """Return the name that a subquery was given."""
    identifier = plan.fields.get("identifier")
    return str(identifier.get("name", "")) if isinstance(identifier, Mapping) else ""


def terms(condition: Node | None) -> Iterator[Node]:
    """Yield the terms of a condition that all must hold."""
    if condition is None:
        return
    if condition.kind == "And":
        for child in condition.children:
            yield from terms(child)
    else:
        yield condition


def constant(value: object) -> str:
    """Name a constant of Spark, such as a kind of join."""
    found = value.get("object") or value.get("product-class") if isinstance(value, Mapping) else None
    return str(found or "strange").rsplit(".", 1)[-1].rstrip("$")


def name_of(expression: Node) -> str:
    """Name what rows are grouped by, as briefly as possible."""
    if expression.kind in {"AttributeReference", "Alias"}:
        return expression.name
    inner = ", ".join(name_of(child) for child in expression.children)
    return f"{snake(expression.kind)}({inner})"


def snake(kind: str) -> str:
    """Return the name of a class in the spelling of a function name."""
    return "".join(f"_{char.lower()}" if char.isupper() and place else char.lower() for place, char in enumerate(kind))


def _is_tree(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "num-children" in value[0]
