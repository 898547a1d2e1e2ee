"""A table's metadata file, and the data files that its manifests list, read from this machine's disk without Java."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from twice.model.patterns import Merge
from twice.store.data_files import LiveFile

if TYPE_CHECKING:
    from twice.model.tables import Table

# Of larger tables Java lists the files of a few partitions sooner.
_MOST_FILES = 5_000
_FORMATS = (1, 2, 3)
# Types whose values are the same in Python however they are read; a partition of another type is left to Java.
_PLAIN = frozenset({"date", "timestamp", "timestamptz", "int", "long", "string"})
_DELETED = 2


class NotReadable(Exception):
    """The metadata has something that only Java reads: another disk, compression, delete files, other partitions."""


@dataclass(frozen=True)
class Metadata:
    """A table's metadata as one of its files holds it; such a file never changes."""

    location: str
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, location: str) -> Metadata:
        """Read a metadata file."""
        try:
            fields = json.loads(_path(location).read_bytes())
        except (OSError, ValueError) as error:
            raise NotReadable(location) from error
        if not isinstance(fields, dict) or fields.get("format-version") not in _FORMATS:
            raise NotReadable(location)
        return cls(location, fields)

    @property
    def current(self) -> int | None:
        """The id of the newest snapshot; None without one."""
        found = self.fields.get("current-snapshot-id")
        return found if isinstance(found, int) and found >= 0 else None

    def keeps(self, table: Table) -> bool:
        """Return whether the table's layout matches its contract; a run refuses one that does not."""
        merges_on_read = self.fields.get("properties", {}).get("write.merge.mode") == "merge-on-read"
        if isinstance(table.write, Merge) and merges_on_read:
            return False
        spec = self._spec(self.fields["default-spec-id"])
        return sorted(column for _, column in spec) == sorted(table.partition_columns)

    @cached_property
    def files(self) -> Sequence[LiveFile]:
        """The data files of the newest snapshot."""
        found = [each for each in self.fields.get("snapshots", ()) if each["snapshot-id"] == self.current]
        if not found:
            raise NotReadable("no snapshot")
        summary = found[0].get("summary", {})
        if (
            summary.get("total-delete-files") != "0"
            or int(summary.get("total-data-files", _MOST_FILES + 1)) > _MOST_FILES
        ):
            raise NotReadable("delete files, or too many files")
        try:
            files = [file for manifest in _records(found[0]["manifest-list"]) for file in self._listed(manifest)]
        except OSError as error:
            raise NotReadable("manifests") from error
        if len({file.identity for file in files}) < len(files):
            raise NotReadable("a file twice")
        return files

    def _listed(self, manifest: Mapping[str, Any]) -> Iterator[LiveFile]:
        if manifest.get("content", 0):
            raise NotReadable("delete files")
        names = [name for name, _ in self._spec(manifest["partition_spec_id"])]
        for entry in _records(manifest["manifest_path"]):
            if entry["status"] != _DELETED:
                file = entry["data_file"]
                if not file["record_count"]:
                    raise NotReadable("a file without rows, which a scan may leave out")
                # Avro encodes some names differently: the order is that of the specification.
                yield LiveFile(dict(zip(names, file["partition"].values(), strict=True)), file["file_path"])

    def _spec(self, number: int) -> Sequence[tuple[str, str]]:
        """Return the fields of a partition specification and their columns, which must be columns as they are."""
        specs = {each["spec-id"]: each["fields"] for each in self.fields["partition-specs"]}
        schemas = {each["schema-id"]: each["fields"] for each in self.fields["schemas"]}
        columns = {each["id"]: each for each in schemas[self.fields["current-schema-id"]]}
        for field in specs[number]:
            if field["transform"] != "identity" or columns.get(field["source-id"], {}).get("type") not in _PLAIN:
                raise NotReadable("partitions")
        # A column that was renamed leaves the field's name as it was.
        return [(field["name"], columns[field["source-id"]]["name"]) for field in specs[number]]


def _records(location: str) -> Iterator[dict[str, Any]]:
    with _path(location).open("rb") as file:
        for record in fastavro.reader(file):
            assert isinstance(record, dict)  # noqa: S101 - as the specification has it
            yield record


def _path(location: str) -> Path:
    """Return a location on this machine's disk; for another location, a file that does not exist."""
    return Path(location.removeprefix("file:"))
