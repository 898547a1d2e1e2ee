"""Which files a folder holds, on a disk of this machine, on HDFS or in an object store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from twice.store.file_system import problem
from twice.store.hadoop import place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = str.maketrans({char: f"\\{char}" for char in "\\*?[]{}"})


@dataclass(frozen=True)
class Listed:
    """One file: its path below the table's folder, its size, when it was written, and its folders' values."""

    path: str
    size: int
    modified: int
    values: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Child:
    """Something in a folder; `place` is where the file system finds it."""

    name: str
    is_folder: bool
    size: int
    modified: int
    place: Any


class Folder(Protocol):
    """What a listing needs from a table's folder, wherever it is; times are in milliseconds."""

    root: Any

    def exists(self) -> bool:
        """Return whether the folder is there."""

    def children(self, place: Any) -> list[Child]:
        """List the folder or one below it; one that is gone is empty."""


class OnDisk:
    """A folder on a disk of this machine."""

    def __init__(self, root: str) -> None:
        self.root = root

    def exists(self) -> bool:
        """Return whether the folder is there."""
        return os.path.isdir(self.root)  # noqa: PTH112 - Path.is_dir raises for a path that is too long

    def children(self, place: Any) -> list[Child]:
        """List the folder or one below it; one that is gone is empty."""
        found = []
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # removed since it was listed
                        status = entry.stat()
                        modified = status.st_mtime_ns // 1_000_000
                        found.append(Child(entry.name, entry.is_dir(), status.st_size, modified, entry.path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise problem(error, str(place)) from error
        return found


class InHadoop:
    """A folder of HDFS or of an object store, through the Hadoop client of Spark."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._system, self.root = place(session, folder)

    def exists(self) -> bool:
        """Return whether the folder is there."""
        return bool(self._system.exists(self.root))

    def children(self, place: Any) -> list[Child]:
        """List the folder or one below it; one that is gone is empty."""
        try:
            found = list(self._system.listStatus(place))
        except (Py4JJavaError, CapturedException) as error:
            # Removed since its parent was listed: what is there now does not hold it.
            if "FileNotFoundException" in str(error):
                return []
            raise
        return [
            Child(
                str(each.getPath().getName()),
                bool(each.isDirectory()),
                int(each.getLen()),
                int(each.getModificationTime()),
                each.getPath(),
            )
            for each in found
        ]


def files(folder: Folder, wanted: Callable[[str, str | None], bool] = lambda _name, _value: True) -> Iterator[Listed]:
    """List the files that Spark would read, leaving out `name=value` folders that are not wanted."""
    pending: list[tuple[Any, str, tuple[tuple[str, str | None], ...]]] = [(folder.root, "", ())]
    while pending:
        above, below, values = pending.pop()
        for child in folder.children(above):
            if _hidden(child.name):
                continue
            here = f"{below}/{child.name}" if below else child.name
            if not child.is_folder:
                yield Listed(here, child.size, child.modified, values)
                continue
            column, equals, text = child.name.partition("=")
            value = None if text == _NULL else unquote(text)
            if not equals:
                pending.append((child.place, here, values))
            elif wanted(unquote(column), value):
                pending.append((child.place, here, (*values, (unquote(column), value))))


def fingerprint(found: Iterable[Listed]) -> str:
    """Name a set of files by path, size and time; no files: an empty text."""
    lines = sorted(f"{file.path}\n{file.size}\n{file.modified}" for file in found)
    return hashlib.sha256("\n\n".join(lines).encode(errors="surrogatepass")).hexdigest()[:24] if lines else ""


def literal(folder: str) -> str:
    """Escape what Spark would read as a pattern in a path."""
    return folder.translate(_ESCAPED)


def _hidden(name: str) -> bool:
    """Return whether Spark leaves a file out, as it does with markers and half-copied files."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
