"""What a store keeps in memory and threads share: every look and every change happens under one lock."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from twice.store.protocol import StagedRows

StageT = TypeVar("StageT", bound=StagedRows)
Key = TypeVar("Key")
Value = TypeVar("Value")


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


class Recent(Generic[Key, Value]):
    """The values that were put last, as many as there is room for."""

    def __init__(self, room: int) -> None:
        self._lock = threading.Lock()
        self._room = room
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Return a value; None if it is not known."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Remember a value, and forget the oldest one if there is no room."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._room:
                self._values.popitem(last=False)

    def known(self) -> list[Key]:
        """List the keys of this moment."""
        with self._lock:
            return list(self._values)
