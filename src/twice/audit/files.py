"""Which files are audited, and what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePath

from twice.audit.config import AuditConfig
from twice.audit.languages.reading import ENDINGS, is_python, is_test
from twice.errors import UsageError

_SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".ipynb_checkpoints",
        "dbt_packages",
        ".eggs",
        ".twice",
        ".idea",
        ".vscode",
    }
)
LARGEST = 5_000_000


def shown_path(file: Path, root: Path) -> str:
    """Return a path as it is shown: relative to the root where it can be."""
    try:
        return file.resolve().relative_to(_resolved(root) if root.is_absolute() else root.resolve()).as_posix()
    except ValueError:
        return file.as_posix()


def is_test_file(file: Path, path: str, config: AuditConfig) -> bool:
    """Return whether a file is test code by its name, below the project or the folder that was given."""
    if config.source is not None and not PurePath(path).is_absolute():
        return is_test(path)
    real = os.path.realpath(file)
    above = max((start for start in config.starts if real.startswith(start.rstrip("/") + "/")), key=len, default=None)
    return is_test(path if above is None else real[len(above.rstrip("/")) + 1 :])


def below_git(folder: Path) -> Path | None:
    """Return the nearest folder at or above one that is a working tree of git."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)


@lru_cache(maxsize=16)
def _resolved(root: Path) -> Path:
    return root.resolve()


def collect(paths: Sequence[Path], config: AuditConfig, skipped: list[Path] | None = None) -> list[Path]:
    """Return the files below some paths, each once, in order.

    A given file that is nothing to read goes into `skipped`; without such a list it is an error.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if not (path.is_file() or path.is_dir()):
            raise UsageError(
                f"{path} is neither a file nor a folder" if path.exists() else f"there is no file or folder {path}"
            )
        if path.is_file() and not _is_read(path):
            if skipped is None:
                endings = ", ".join(sorted(ENDINGS))
                raise UsageError(f"{path} is not Python, SQL or a notebook: its name ends in none of {endings}")
            skipped.append(path)
            continue
        for file in _walk(path) if path.is_dir() else (path,):
            if not config.exclude or not config.excludes(shown_path(file, config.root)):
                found.setdefault(os.path.realpath(file), file)
    return sorted(found.values())


def _is_read(path: Path) -> bool:
    """Return whether a file is something to read: by its ending, or as a script that names Python in its first line."""
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} cannot be read: permission denied")
    if path.suffix:
        return path.suffix.lower() in ENDINGS
    with path.open("rb") as file:
        return is_python(path.name, file.readline(200).decode("latin-1"))


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED:
                below = Path(entry.path)
                try:
                    yield from _walk(below)
                except UsageError:
                    yield below  # reported as unreadable, beside what is found in the other folders
        elif PurePath(entry.name).suffix.lower() in ENDINGS and entry.is_file():
            yield Path(entry.path)


def encoding_of(data: bytes) -> str | None:
    """Return the encoding in which a file's text can be read and written back byte by byte, or None if it is binary."""
    if b"\0" in data[:4096]:
        encoding = _MARKS.get(data[:2])
        if encoding is None:
            return None
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            return None
        return encoding
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def decode(data: bytes) -> str | None:
    """Return the text of a file, or None if it is binary."""
    encoding = encoding_of(data)
    return data.decode(encoding).removeprefix("\ufeff") if encoding is not None else None
