"""What statements have in common: the table that they write, its columns, partitions and assignments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from twice.audit.expressions import Expr
from twice.audit.languages.sql.convert import Converter
from twice.audit.model import Mode, Target, Write
from twice.audit.places import Place


@dataclass
class Parts:
    """Reads the parts of one statement."""

    convert: Converter
    place: Place
    constraints: dict[str, set[str]] = field(default_factory=dict)

    def target(self, node: object, kind: str = "table") -> Target:
        """Return the table that a statement writes."""
        inner = node.this if isinstance(node, exp.Schema) else node
        name = self.convert.table_name(inner) if isinstance(inner, exp.Expression) else ""
        temporary = name.rsplit(".", 1)[-1].startswith(("#", "@")) or isinstance(inner, exp.Parameter)
        expr = self.convert.name_expr(inner) if isinstance(inner, exp.Expression) else None
        return Target(name, "view" if kind == "view" else "table", temporary=temporary, expr=expr)

    def write(self, node: object, mode: Mode, *, via: str = "sql", kind: str = "table") -> Write:
        """Return a write of that table, of which nothing else is known yet."""
        return Write(self.target(node, kind), mode, self.place, via=via)

    def column_name(self, node: exp.Expression) -> str:
        """Return the name of a column that is written; one that is put together stands in braces: {column}."""
        return self.convert.source.readable(node.name.lower())

    def assignments(self, nodes: list[exp.Expression]) -> Iterator[tuple[str, Expr]]:
        """Yield what SET assigns: the column and its value."""
        for item in nodes:
            if isinstance(item, exp.EQ):
                left, right = item.this, item.args.get("expression")
                place = self.convert.place(left, self.place)
                if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
                    for one, other in zip(left.expressions, right.expressions, strict=False):
                        yield self.column_name(one), self.convert.expr(other, place)
                else:
                    yield self.column_name(left), self.convert.expr(right, place)

    def partition_items(self, node: exp.Expression) -> Iterator[tuple[str, Expr | None]]:
        """Yield the columns of PARTITION (…), with their values where they are given."""
        for item in node.expressions:
            if isinstance(item, exp.EQ):
                yield item.this.name.lower(), self.convert.expr(item.args.get("expression"), self.place)
            elif not isinstance(item, exp.Predicate):
                yield item.name.lower(), None
