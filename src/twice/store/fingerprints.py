"""What partitions held at a version: it never changes, so each is looked up only once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target

_VERSIONS = 64


class Fingerprints:
    """Fingerprints by version and partition, of the versions that were added last; threads share it."""

    def __init__(self, room: int = _VERSIONS) -> None:
        self._lock = threading.Lock()
        self._room = room
        self._known: OrderedDict[tuple[str, str], dict[Scope, str]] = OrderedDict()

    def get(self, target: Target, version: str) -> dict[Scope, str] | None:
        """Return what each partition of the target held; None if one of them is not known."""
        with self._lock:
            known = self._known.get((target.table.name, version), {})
            found = {partition: known[partition] for partition in target.partitions if partition in known}
        return found if len(found) == len(target.partitions) else None

    def has(self, table: Table, version: str) -> bool:
        """Return whether anything is known of a version."""
        with self._lock:
            return (table.name, version) in self._known

    def put(self, target: Target, version: str, found: Mapping[Scope, str]) -> None:
        """Remember what partitions held, and forget the oldest version if there is no room."""
        with self._lock:
            self._known.setdefault((target.table.name, version), {}).update(found)
            if len(self._known) > self._room:
                self._known.popitem(last=False)

    def drop(self, target: Target, version: str) -> None:
        """Forget a version."""
        with self._lock:
            self._known.pop((target.table.name, version), None)
