"""A table's log, read from this machine's disk without Java: its newest version, and the files of that version.

Delta writes a checksum beside each commit, and lists in most of them all files of a table that has not too many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from twice.model.patterns import InsertOnly
from twice.store.data_files import LiveFile
from twice.store.delta import history
from twice.store.delta.layout import Layout, identity_of, is_mapped

if TYPE_CHECKING:
    from twice.model.tables import Table

_Values = Mapping[str, str | None]
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..+")
# At most this many commits are read to find out what came after a checksum that lists all files.
_STEPS_BACK = 100
# Reader features that a table may require and this reader supports.
_READ = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"}
)
_READER_VERSIONS = (1, 2, 3)
# Tables whose commits a catalog keeps: the newest may not be in the folder yet.
_ELSEWHERE = ("catalogManaged", "catalogOwned", "coordinatedCommits")


@dataclass(frozen=True)
class LogFiles:
    """The log of one table."""

    folder: Path

    @classmethod
    def of(cls, table: str) -> LogFiles:
        """Return the log of the table in a folder."""
        return cls(Path(table) / "_delta_log")

    def newest(self) -> int | None:
        """Return the number of the newest commit; None if the folder has none, or a checkpoint of a later one."""
        try:
            names = [each.name for each in self.folder.iterdir()]
        except OSError:
            return None
        newest = _highest(_COMMIT, names)
        return newest if newest is not None and (_highest(_CHECKPOINT, names) or 0) <= newest else None

    def content_version(self) -> str | None:
        """Return the version that made what readers see; None where the log does not show it."""
        newest = self.newest()
        if newest is None or self._checksum(newest) is None:
            return None
        return str(history.content_version(newest, self._first))

    def files(self, version: int, zone: str) -> list[LiveFile] | None:
        """List the files of the newest version; None where checksums and commits do not show it."""
        checksum = self._checksum(version)
        found = self._listed(version) if checksum is not None else None
        if checksum is None or found is None or len(found) != checksum.get("numFiles"):
            return None
        metadata = checksum["metadata"]
        schema = T.StructType.fromJson(json.loads(metadata["schemaString"]))
        mapped = is_mapped(metadata.get("configuration", {}))
        layout = Layout.of(schema, metadata.get("partitionColumns", []), zone, mapped=mapped)
        return [LiveFile(layout.partition(values), identity) for identity, values in found.items()]

    def keeps(self, version: int, table: Table) -> bool:
        """Return whether the table is laid out as its contract says; the run refuses a table that is not."""
        metadata = (self._checksum(version) or {}).get("metadata", {})
        closed = metadata.get("configuration", {}).get("delta.appendOnly") == "true"
        if closed and table.write is not None and not isinstance(table.write, InsertOnly):
            return False
        return sorted(metadata.get("partitionColumns", [])) == sorted(table.partition_columns)

    def _listed(self, newest: int) -> dict[str, _Values] | None:
        """Return each file with its partition: those of the last checksum that lists them, and what came after it."""
        for version in range(newest, max(newest - _STEPS_BACK, -1), -1):
            listed = (self._checksum(version) or {}).get("allFiles")
            if listed is not None:
                found = {identity_of(add): _values(add) for add in listed}
                return found if all(self._replay(later, found) for later in range(version + 1, newest + 1)) else None
        return None

    def _replay(self, version: int, files: dict[str, _Values]) -> bool:
        """Apply what a commit adds and removes; False if it cannot be read."""
        actions = _read(self.folder / f"{version:020d}.json", lines=None)
        for action in actions or ():
            if gone := action.get("remove"):
                files.pop(identity_of(gone), None)
        for action in actions or ():
            if add := action.get("add"):
                files[identity_of(add)] = _values(add)
        return actions is not None

    def _checksum(self, version: int) -> dict[str, Any] | None:
        """Return what was written beside a commit; None where that is missing, or the table needs another reader."""
        found = _read(self.folder / f"{version:020d}.crc")
        if not found or "metadata" not in found[0]:
            return None
        protocol = found[0].get("protocol") or {}
        if protocol.get("minReaderVersion") not in _READER_VERSIONS:
            return None
        needed = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        elsewhere = any(each.startswith(_ELSEWHERE) for each in needed)
        return None if elsewhere or set(protocol.get("readerFeatures") or ()) - _READ else found[0]

    def _first(self, version: int) -> list[dict[str, Any]] | None:
        return _read(self.folder / f"{version:020d}.json")


def _highest(pattern: re.Pattern[str], names: Iterable[str]) -> int | None:
    return max((int(found[1]) for name in names if (found := pattern.fullmatch(name))), default=None)


def _values(add: Mapping[str, Any]) -> _Values:
    return add.get("partitionValues") or {}


def _read(file: Path, lines: int | None = 1) -> list[dict[str, Any]] | None:
    """Return the first lines of a file, all of them without a number; None if it cannot be read."""
    try:
        with file.open(encoding="utf-8") as opened:
            return [json.loads(line) for line in islice(opened, lines) if line.strip()]
    except (OSError, ValueError):
        return None
