"""An outbox: messages about the rows that a publish changes, decided together with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twice.errors import DefinitionError
from twice.model.durations import Duration, days
from twice.model.limits import check_limits
from twice.model.names import check_identifier

if TYPE_CHECKING:
    from twice.model.effects import Target


@dataclass(frozen=True)
class Outbox:
    """Where messages about changed rows go, and which columns they carry.

    A publish writes one message for each row that it adds, changes or removes, in its own transaction; the relay
    sends them. `columns`: all but personal ones unless named; a row that differs in other columns only is not changed.
    `attempts`: how often a receiver may leave a message without an answer. `keep`: how long sent messages are kept.
    """

    to: Target
    columns: Sequence[str] = ()
    attempts: int = 8
    parallel: int = 8
    timeout: float = 30.0
    keep: Duration = field(default_factory=lambda: days(7))

    def __post_init__(self) -> None:
        if not callable(getattr(self.to, "send", None)):
            raise DefinitionError(f"Outbox(to={self.to!r}) must be a receiver such as Http(…)")
        given: object = self.columns
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DefinitionError(f"Outbox(columns={self.columns!r}) must be a list of column names")
        for column in self.columns:
            check_identifier(column, "Outbox(columns=…): a column name")
        object.__setattr__(self, "columns", tuple(self.columns))
        check_limits("Outbox", parallel=self.parallel, attempts=self.attempts, timeout=self.timeout)
        if not isinstance(self.keep, Duration):
            raise DefinitionError(f"Outbox(keep={self.keep!r}) must be a duration such as days(7)")

    @property
    def text(self) -> str:
        """The outbox in words."""
        what = ", ".join(self.columns) or "all columns that are not personal"
        return f"a message to {type(self.to).__name__} for each changed row, with {what}"
