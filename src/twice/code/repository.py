"""Which commit of which git repository a project's code is at; asked once per process and repository."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

# Entries of `git status` begin with one of these: a changed, renamed, unmerged or untracked file.
_CHANGES = ("1 ", "2 ", "u ", "? ")
# What is untracked counts only if it can be code: data, logs and ledgers lie beside many projects.
_CODE = ("*.py", "*.sql", "*.toml")
_SECONDS = 10

_lock = threading.Lock()
_known: dict[Path, Commit | None] = {}


@dataclass(frozen=True)
class Commit:
    """A commit, and whether files of the working tree differ from it."""

    id: str
    dirty: bool


def commit_at(folder: Path) -> Commit | None:
    """Return the commit that the code in a folder is at; None without git, a repository or a commit."""
    root = _root(folder)
    if root is None:
        return None
    with _lock:
        if root not in _known:
            _known[root] = _ask(root)
        return _known[root]


def forget() -> None:
    """Ask git again at the next call."""
    with _lock:
        _known.clear()


def _root(folder: Path) -> Path | None:
    """Find the working tree by its `.git`, a folder or a file, without calling git."""
    here = folder.resolve()
    return next((each for each in (here, *here.parents) if (each / ".git").exists()), None)


def _ask(root: Path) -> Commit | None:
    command = ["git", "-C", str(root), "status", "--porcelain=v2", "--branch", "--untracked-files=all", "--", *_CODE]
    # Nothing of the repository is written, not even its index.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.splitlines()
    found = next((line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")), "")
    if not found or found == "(initial)":
        return None
    return Commit(found, any(line.startswith(_CHANGES) for line in lines))
