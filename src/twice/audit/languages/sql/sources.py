"""A SQL text with the lines it stands on in its file, and what stands for the holes in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twice.audit.expressions import Expr
from twice.audit.places import Place

HOLE = re.compile(r"__tw_hole_(\d+)__", re.IGNORECASE)


def hole_name(number: int) -> str:
    """Return the identifier that stands for a hole."""
    return f"__tw_hole_{number}__"


@dataclass(frozen=True)
class SqlText:
    """SQL that may come from a Python string: `lines[k]` is the line of the file on which its line k stands."""

    text: str
    lines: Sequence[int] = ()
    column: int = 1  # where the first line starts
    holes: Mapping[int, Expr] = field(default_factory=dict)

    def place(self, line: int, column: int = 1) -> Place:
        """Return the place in the file of a place in the text, both counted from 1."""
        if not self.lines:
            return Place(line, max(1, column))
        index = min(max(line, 1), len(self.lines)) - 1
        if index == 0:
            column += self.column - 1
        return Place(self.lines[index], max(1, column))

    def hole(self, name: str) -> Expr | None:
        """Return what stands for the first hole in a text."""
        match = HOLE.search(name) if self.holes and "__" in name else None
        return self.holes.get(int(match[1])) if match else None

    def holes_in(self, text: str) -> list[Expr]:
        """Return what stands for the holes in a text, in order."""
        if not self.holes or "__" not in text:
            return []
        numbers = (int(match[1]) for match in HOLE.finditer(text))
        return [self.holes[number] for number in numbers if number in self.holes]

    def readable(self, name: str) -> str:
        """Return a name with its holes shown as what they are: `{schema}.orders`."""
        if "__" not in name:
            return name
        return HOLE.sub(lambda match: "{" + self._shown(int(match[1])) + "}", name)

    def _shown(self, number: int) -> str:
        expr = self.holes.get(number)
        return (expr.name if expr is not None else "") or "…"
