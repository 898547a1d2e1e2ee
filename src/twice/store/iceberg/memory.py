"""What the partitions of a snapshot hold: it never changes, so what was looked up once need not be again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target

_SNAPSHOTS = 64


class Memory:
    """Fingerprints by snapshot and partition, of the snapshots that were asked for last; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], dict[Scope, str]] = OrderedDict()

    def get(self, target: Target, version: str) -> dict[Scope, str] | None:
        """Return what each partition of the target holds; None if one of them is not known."""
        with self._lock:
            known = self._known.get((target.table.name, version), {})
            found = {partition: known[partition] for partition in target.partitions if partition in known}
        return found if len(found) == len(target.partitions) else None

    def put(self, target: Target, version: str, found: Mapping[Scope, str]) -> None:
        """Remember what partitions hold."""
        with self._lock:
            self._known.setdefault((target.table.name, version), {}).update(found)
            if len(self._known) > _SNAPSHOTS:
                self._known.popitem(last=False)

    def drop(self, target: Target, version: str) -> None:
        """Forget a snapshot."""
        with self._lock:
            self._known.pop((target.table.name, version), None)
