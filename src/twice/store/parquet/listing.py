"""The files of a table's folder, or of staged rows: found by listing, and distinguished by names, sizes and times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.store.file_system import Files
from twice.store.parquet.names import moment, split

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target

_Values = Mapping[str, str | None]
_Place = tuple[str, _Values]


@dataclass(frozen=True)
class Unit:
    """A folder that is replaced as a whole: the partition it belongs to and the files that readers see."""

    path: str
    partition: Scope
    empty: bool
    files: tuple[str, ...]


@dataclass(frozen=True)
class Leaf:
    """A folder of files with its partition values, as texts; `partition` is None outside of the scope."""

    values: Mapping[str, str | None]
    partition: Scope | None
    files: tuple[str, ...]


def units(files: Files, root: str, target: Target) -> list[Unit]:
    """List the folders below `root` that the target's scope consists of.

    A folder moves as a whole where every dimension below it is open; a dimension that the scope fixes is
    looked for by its value.
    """
    columns = target.table.partition_columns
    fixed = [columns.index(name) + 1 for name, _ in target.scope.dimensions]
    depth = max([1 if target.table.partition else 0, *fixed])
    found = []
    for path, values in _folders(files, root, columns[:depth], lambda values: _partition(target, values) is not None):
        partition = _partition(target, values)
        assert partition is not None  # noqa: S101 - the walk kept to the scope
        held = tuple(_files(files, root, path))
        found.append(Unit(path, partition, not files.entries(join(root, path)), held))
    return found


def leaves(files: Files, root: str, target: Target) -> list[Leaf]:
    """List every folder of files below `root`, with the partition that it belongs to."""
    found = []
    for path, values in _folders(files, root, target.table.partition_columns, lambda _: True):
        if held := tuple(_files(files, root, path)):
            found.append(Leaf(values, _partition(target, values), held))
    return found


def fingerprints(target: Target, found: Sequence[Unit]) -> dict[Scope, str]:
    """Name the files of each partition; an empty one is an empty text."""
    grouped: dict[Scope, list[str]] = {partition: [] for partition in target.partitions}
    for unit in found:
        grouped[unit.partition] += unit.files
    return {partition: fingerprint(held) for partition, held in grouped.items()}


def fingerprint(lines: Sequence[str]) -> str:
    """Name a set of files."""
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogatepass")).hexdigest()[:32] if lines else ""


def everything(files: Files, root: str) -> str:
    """Name all files of a table; an empty one is an empty text."""
    return fingerprint(tuple(_files(files, root, "")))


def join(root: str, path: str) -> str:
    """Return the full path of something below a folder, or of the folder itself."""
    return f"{root}/{path}" if path else root


def _folders(files: Files, root: str, columns: Sequence[str], wanted: Callable[[_Values], bool]) -> list[_Place]:
    """Walk down one level for each partition column, into the folders that are wanted."""
    level: list[_Place] = [("", {})]
    for column in columns:
        below: list[_Place] = []
        for path, values in level:
            for entry in files.entries(join(root, path)):
                named = None if entry.hidden or not entry.is_folder else split(entry.name)
                if named and named[0] == column and wanted(found := {**values, column: named[1]}):
                    below.append((join(path, entry.name) if path else entry.name, found))
        level = below
    return level


def _partition(target: Target, values: _Values) -> Scope | None:
    """Return the partition that folder names stand for; a dimension that was not checked may be right."""
    table, fixed = target.table, dict(target.scope.dimensions)
    value = None
    if table.partition:
        value = moment(values[table.partition.column], sub_day=table.partition.grain.sub_day)
    return target.partition_of(value, [values.get(name, fixed.get(name, "")) for name in table.dimensions])


def _files(files: Files, root: str, path: str) -> Iterator[str]:
    """Describe every file below a folder that readers see, by path, size and time."""
    for entry in files.entries(join(root, path)):
        if entry.hidden:
            continue
        below = f"{path}/{entry.name}" if path else entry.name
        if entry.is_folder:
            yield from _files(files, root, below)
        else:
            yield f"{below}\t{entry.size}\t{entry.changed}"
