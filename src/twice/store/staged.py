"""Staged rows of any store: which are published, and which are open in this process, whose threads share them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from twice.model.scopes import Scope
from twice.store.protocol import StagedRows

StagedT = TypeVar("StagedT", bound=StagedRows)


@dataclass(frozen=True)
class Publication(Generic[StagedT]):
    """Which of the staged rows become visible, and what is recorded with them."""

    staged: StagedT
    partitions: Sequence[Scope]
    notes: Mapping[str, str]
    remember: Mapping[str, str]


class OpenStagedRows(Generic[StagedT]):
    """The staged rows that this process has opened and not ended yet, by table and token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_rows: dict[tuple[str, int], StagedT] = {}

    def add(self, staged: StagedT) -> None:
        """Remember staged rows."""
        with self._lock:
            self._open_rows[staged.target.table.name, staged.token] = staged

    def end(self, table: str, token: int) -> StagedT | None:
        """Forget staged rows, and return them; None if this process did not open them."""
        with self._lock:
            return self._open_rows.pop((table, token), None)

    def find(self, wanted: Callable[[StagedT], bool]) -> StagedT | None:
        """Return the first staged rows that are wanted, among those that were open at the moment of the call."""
        with self._lock:
            open_now = list(self._open_rows.values())
        return next((staged for staged in open_now if wanted(staged)), None)
