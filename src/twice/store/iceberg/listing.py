"""Lists of data files, described to Python in one text however many files there are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

from twice.content.java import compiled, items_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FRACTION = re.compile(r"\.\d+")
_SOURCE = """
package twice;

public class Files {
    private final java.util.List files = new java.util.ArrayList();
    private final StringBuilder text = new StringBuilder();

    /** Walks scan tasks or content files, and keeps the files in their order. */
    public Files list(org.apache.iceberg.Table table, Iterable found) {
        Files listed = new Files();
        java.util.Map specs = table.specs();
        for (java.util.Iterator each = found.iterator(); each.hasNext();) {
            Object next = each.next();
            java.util.List deletes = java.util.Collections.EMPTY_LIST;
            if (next instanceof org.apache.iceberg.FileScanTask) {
                deletes = ((org.apache.iceberg.FileScanTask) next).deletes();
                next = ((org.apache.iceberg.FileScanTask) next).file();
            }
            listed.add((org.apache.iceberg.ContentFile) next, deletes, specs);
        }
        return listed;
    }

    /** Returns a line of JSON for each file: location, rows, partition spec, partition by field, delete files. */
    public String text() {
        return text.toString();
    }

    /** Adds files to a commit, or deletes them in it. */
    public void move(org.apache.iceberg.OverwriteFiles commit, String numbers, boolean add) {
        String[] each = numbers.split(",");
        for (int i = 0; i < each.length; i++) {
            org.apache.iceberg.DataFile file = (org.apache.iceberg.DataFile) files.get(Integer.parseInt(each[i]));
            if (add) {
                commit.addFile(file);
            } else {
                commit.deleteFile(file);
            }
        }
    }

    private void add(org.apache.iceberg.ContentFile file, java.util.List deletes, java.util.Map specs) {
        org.apache.iceberg.PartitionSpec spec =
            (org.apache.iceberg.PartitionSpec) specs.get(Integer.valueOf(file.specId()));
        text.append(files.isEmpty() ? "[" : "\\n[").append(quoted(file.location()));
        text.append(',').append(file.recordCount()).append(',').append(file.specId()).append(',');
        text.append(org.apache.iceberg.SingleValueParser.toJson(spec.partitionType(), (Object) file.partition()));
        text.append(",[");
        for (int i = 0; i < deletes.size(); i++) {
            text.append(i == 0 ? "" : ",");
            text.append(quoted(((org.apache.iceberg.ContentFile) deletes.get(i)).location()));
        }
        text.append("]]");
        files.add(file);
    }

    private static String quoted(String value) {
        return org.apache.iceberg.SingleValueParser.toJson(org.apache.iceberg.types.Types.StringType.get(), value);
    }
}
"""


@dataclass(frozen=True)
class FileInfo:
    """One data file: where it is, how many rows, which partition, its deletes, and its place in Java's list."""

    location: str
    rows: int
    partition: Mapping[str, object]
    listed: Any
    number: int
    deletes: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """What identifies the file's live rows: its location and the delete files that apply to it."""
        return "\n".join([self.location, *sorted(self.deletes)])


def describe(session: SparkSession, table: Any, found: Any) -> list[FileInfo]:
    """Describe data files or scan tasks of Java, partitions as Python values, in two calls."""
    listed = compiled(session, lambda: table, "twice.Files", _SOURCE).list(table, found)
    text = str(listed.text())
    fields: dict[int, list[tuple[str, str, str]]] = {}
    # Files share their partition: its values are read once.
    partitions: dict[tuple[object, ...], Mapping[str, object]] = {}
    infos = []
    for number, line in enumerate(text.split("\n") if text else ()):
        location, rows, spec, values, deletes = json.loads(line)
        if spec not in fields:
            fields[spec] = _fields(table, spec)
        place = (spec, *(values.get(field) for field, _, _ in fields[spec]))
        if place not in partitions:
            kinds = zip(fields[spec], place[1:], strict=True)
            partitions[place] = {name: _python(value, kind) for (_, name, kind), value in kinds}
        infos.append(FileInfo(location, rows, partitions[place], listed, number, tuple(deletes)))
    return infos


def add(commit: Any, files: Sequence[FileInfo]) -> None:
    """Add files to a commit."""
    _move(commit, files, is_added=True)


def delete(commit: Any, files: Sequence[FileInfo]) -> None:
    """Delete files in a commit."""
    _move(commit, files, is_added=False)


def _move(commit: Any, files: Sequence[FileInfo], *, is_added: bool) -> None:
    """Hand files to a commit: one call for each list that they come from."""
    lists = {id(file.listed): file.listed for file in files}
    for key, listed in lists.items():
        numbers = ",".join(str(file.number) for file in files if id(file.listed) == key)
        listed.move(commit, numbers, is_added)


def _fields(table: Any, spec: int) -> list[tuple[str, str, str]]:
    fields = items_of(table.specs().get(spec).partitionType().fields())
    return [(str(field.fieldId()), str(field.name()), str(field.type())) for field in fields]


def _python(value: object, kind: str) -> object:
    if value is None:
        return None
    if kind == "date":
        return date.fromisoformat(str(value))
    if kind.startswith("timestamp"):
        # Python 3.10 reads a fraction of six digits, and Iceberg writes as many as there are.
        found = datetime.fromisoformat(_FRACTION.sub(lambda digits: digits[0].ljust(7, "0")[:7], str(value)))
        return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    if kind in ("int", "long"):
        return int(str(value))
    return str(value)
