"""What the audit says about one place of one file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from twice.audit.places import Place


class Severity(IntEnum):
    """How sure it is that a rerun does harm."""

    INFO = 1  # good to know
    WARNING = 2  # a rerun is likely to do harm
    ERROR = 3  # a rerun corrupts

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def named(cls, name: str) -> Severity:
        """Return the severity of that name.

        >>> Severity.named("error")
        <Severity.ERROR: 3>
        """
        return cls[name.upper()]


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the characters from (line, column) to (end_line, end_column), all counted from 1, by a text."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Fix:
    """A change of the source that removes a finding; `safe` if it can only mean the same, or better."""

    edits: tuple[Edit, ...]
    says: str
    safe: bool = False


@dataclass(frozen=True)
class Finding:
    """One defect: `message` says what the second run of *this* code does, `instead` what to write.

    `instead` is the plain SQL or Spark form, `with_twice` the same in terms of this framework.
    """

    code: str
    severity: Severity
    place: Place
    message: str
    instead: str = ""
    with_twice: str = ""
    fix: Fix | None = None
    path: str = ""
    source: str = ""

    @property
    def line(self) -> int:
        """The line it is reported on, counted from 1."""
        return self.place.line

    @property
    def column(self) -> int:
        """The column it is reported on, counted from 1."""
        return self.place.column

    def at(self, path: str, source: str) -> Finding:
        """Return the same finding with its file and its source line."""
        return replace(self, path=path, source=source)

    def sort_key(self) -> tuple[Any, ...]:
        """Order findings by where they are."""
        return (self.path, self.place.line, self.place.column, self.code, self.message)
