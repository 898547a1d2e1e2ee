"""Which files a folder holds, asked of Hadoop's file system: a disk, HDFS or an object store alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

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


def exists(session: SparkSession, folder: str) -> bool:
    """Return whether the folder is there."""
    system, path = place(session, folder)
    return bool(system.exists(path))


def files(
    session: SparkSession, folder: str, wanted: Callable[[str, str | None], bool] = lambda _name, _value: True
) -> Iterator[Listed]:
    """List the files that Spark would read, leaving out `name=value` folders that are not wanted."""
    system, path = place(session, folder)
    pending: list[tuple[Any, str, tuple[tuple[str, str | None], ...]]] = [(path, "", ())]
    while pending:
        above, below, values = pending.pop()
        for status in _children(system, above):
            name = str(status.getPath().getName())
            if _hidden(name):
                continue
            here = f"{below}/{name}" if below else name
            if not status.isDirectory():
                yield Listed(here, int(status.getLen()), int(status.getModificationTime()), values)
                continue
            column, equals, text = name.partition("=")
            value = None if text == _NULL else unquote(text)
            if not equals:
                pending.append((status.getPath(), here, values))
            elif wanted(unquote(column), value):
                pending.append((status.getPath(), here, (*values, (unquote(column), value))))


def fingerprint(found: Iterable[Listed]) -> str:
    """Name a set of files by path, size and time; no files: an empty text."""
    lines = sorted(f"{file.path}\n{file.size}\n{file.modified}" for file in found)
    return hashlib.sha256("\n\n".join(lines).encode()).hexdigest()[:24] if lines else ""


def literal(folder: str) -> str:
    """Escape what Spark would read as a pattern in a path."""
    return folder.translate(_ESCAPED)


def _hidden(name: str) -> bool:
    """Return whether Spark leaves a file out, as it does with markers and half-copied files."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def _children(system: Any, path: Any) -> list[Any]:
    try:
        return list(system.listStatus(path))
    except (Py4JJavaError, CapturedException) as error:
        # Removed since its parent was listed: what is there now does not hold it.
        if "FileNotFoundException" in str(error):
            return []
        raise
