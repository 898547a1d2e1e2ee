"""Which files are audited, and what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path, PurePath

from twice.audit.config import AuditConfig
from twice.audit.languages.reading import ENDINGS
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


@lru_cache(maxsize=16)
def _resolved(root: Path) -> Path:
    return root.resolve()


def collect(paths: Iterable[Path], config: AuditConfig) -> list[Path]:
    """Return the files below some paths, each once, in order."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            for file in _walk(path):
                if not config.excludes(shown_path(file, config.root)):
                    found.setdefault(file)
        elif path.exists():
            if path.suffix.lower() not in ENDINGS:
                raise UsageError(
                    f"{path} is not Python, SQL or a notebook: its name ends in none of {', '.join(sorted(ENDINGS))}"
                )
            if not os.access(path, os.R_OK):
                raise UsageError(f"{path} cannot be read: permission denied")
            if not config.excludes(shown_path(path, config.root)):
                found.setdefault(path)
        else:
            raise UsageError(f"there is no file or folder {path}")
    return sorted(found)


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED:
                yield from _walk(Path(entry.path))
        elif PurePath(entry.name).suffix.lower() in ENDINGS and entry.is_file():
            yield Path(entry.path)


def decode(data: bytes) -> str | None:
    """Return the text of a file, or None if it is binary."""
    if b"\0" in data[:4096]:
        for encoding in ("utf-16",):
            if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
                try:
                    return data.decode(encoding)
                except UnicodeDecodeError:
                    return None
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
