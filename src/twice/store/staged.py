"""Stages of any store: what of them is published, and which are open in this process, whose threads share them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from twice.model.scopes import Scope
from twice.store.protocol import StagedRows

StageT = TypeVar("StageT", bound=StagedRows)


@dataclass(frozen=True)
class Publication(Generic[StageT]):
    """What of a stage is to become visible, and what is written down with it."""

    stage: StageT
    partitions: Sequence[Scope]
    notes: Mapping[str, str]
    remember: Mapping[str, str]


class OpenStages(Generic[StageT]):
    """The stages that this process has opened and not ended yet, by table and token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[tuple[str, int], StageT] = {}

    def add(self, stage: StageT) -> None:
        """Remember a stage."""
        with self._lock:
            self._stages[stage.target.table.name, stage.token] = stage

    def end(self, table: str, token: int) -> StageT | None:
        """Forget a stage, and return it; None if this process did not open it."""
        with self._lock:
            return self._stages.pop((table, token), None)

    def find(self, wanted: Callable[[StageT], bool]) -> StageT | None:
        """Return the first stage that is wanted, among those that were open at the moment of the call."""
        with self._lock:
            open_now = list(self._stages.values())
        return next((stage for stage in open_now if wanted(stage)), None)
