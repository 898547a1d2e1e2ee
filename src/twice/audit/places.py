"""Where something stands in a source file."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A span of lines and columns, all counted from 1; `end_line` 0 means: the same line."""

    line: int
    column: int = 1
    end_line: int = 0

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"

    @property
    def last_line(self) -> int:
        """The last line of the span."""
        return max(self.line, self.end_line)


NOWHERE = Place(1)
