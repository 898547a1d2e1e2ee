"""The few operations on files that stores need, and how they are done on a local disk.

Everything rests on one operation: a folder moves in one step, to a place that does not exist or is an
empty folder. Of two moves to the same place one succeeds, and of two moves of the same folder, too.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from twice.errors import EnvironmentProblem, StoreRefused, TransientError, TwiceError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})
_TRIES = 5


@dataclass(frozen=True)
class Entry:
    """Something in a folder; `changed` is its time of modification in the finest unit that is known."""

    name: str
    is_folder: bool
    size: int
    changed: int

    @property
    def hidden(self) -> bool:
        """Whether readers of the table pass over it, as Spark and Hive do."""
        return self.name.startswith(".") or (self.name.startswith("_") and "=" not in self.name)


class Files(Protocol):
    """Files and folders by their full paths."""

    def entries(self, path: str) -> list[Entry]:
        """List a folder; one that is not there is empty."""

    def exists(self, path: str) -> bool:
        """Return whether something is there."""

    def read(self, path: str) -> str | None:
        """Return a file's text; None if it is not there."""

    def write(self, path: str, text: str) -> None:
        """Write a new file so that it survives a crash of the machine; FileNotFoundError: its folder is gone."""

    def clear(self, path: str) -> None:
        """Make a file empty."""

    def make(self, path: str) -> None:
        """Make a folder and those above it."""

    def move(self, source: str, target: str) -> None:
        """Move a folder in one step.

        FileNotFoundError: the source or the folder above the target is gone; FileExistsError: the target
        holds something.
        """

    def remove(self, path: str) -> None:
        """Remove a folder with everything in it; it may be gone already."""

    def sync(self, path: str) -> None:
        """Bring a file, or a folder's names, to the disk, where the file system can do that."""


def problem(error: OSError, path: str) -> TwiceError:
    """Return what a file system's refusal means."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return EnvironmentProblem(
            f"{path}: {reason}",
            unchanged="published rows stay readable",
            next_step="free some space, then run it again: it continues from what is there",
        )
    if error.errno in _REFUSED:
        return StoreRefused(
            f"{path}: {reason}",
            unchanged="published rows stay readable",
            next_step="give this process the right to write there, or name another path in twice.toml",
        )
    return TransientError(
        f"{path}: {reason}",
        unchanged="readers see the old version or the new one; the next run finishes a publish that has begun",
        next_step="run it again; if it persists, check the disk",
    )


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise what a file system refuses as one of our errors."""
    try:
        yield
    except OSError as error:
        raise problem(error, path) from error


class LocalFiles:
    """A disk of this machine, or one that is mounted like it."""

    def entries(self, path: str) -> list[Entry]:
        """List a folder; what vanishes meanwhile is left out."""
        found = []
        with explained(path), suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as listing:
            for item in listing:
                with suppress(FileNotFoundError):
                    known = item.stat()
                    found.append(Entry(item.name, item.is_dir(), known.st_size, known.st_mtime_ns))
        return sorted(found, key=lambda entry: entry.name)

    def exists(self, path: str) -> bool:
        """Return whether something is there."""
        with explained(path):
            return Path(path).exists()

    def read(self, path: str) -> str | None:
        """Return a file's text; None if it is not there."""
        with explained(path), suppress(FileNotFoundError, NotADirectoryError):
            return Path(path).read_text(encoding="utf-8")
        return None

    def write(self, path: str, text: str) -> None:
        """Write a new file and wait for the disk."""
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise problem(error, path) from error

    def clear(self, path: str) -> None:
        """Make a file empty."""
        with explained(path), suppress(FileNotFoundError):
            os.truncate(path, 0)

    def make(self, path: str) -> None:
        """Make a folder and those above it."""
        with explained(path):
            Path(path).mkdir(parents=True, exist_ok=True)

    def move(self, source: str, target: str) -> None:
        """Rename: the kernel refuses a target that is not empty."""
        try:
            Path(source).rename(target)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in _OCCUPIED:
                raise FileExistsError(errno.EEXIST, "it is occupied", target) from None
            raise problem(error, target) from error

    def remove(self, path: str) -> None:
        """Remove a folder; another process may be removing it, or still be writing into it."""
        for left in reversed(range(_TRIES)):
            try:
                shutil.rmtree(path)
                return
            except FileNotFoundError:
                if not Path(path).exists():
                    return
            except OSError as error:
                if error.errno not in _OCCUPIED or not left:
                    raise problem(error, path) from error

    def sync(self, path: str) -> None:
        """Wait for the disk; what is gone needs no waiting for."""
        with explained(path), suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
