"""Write a file as a whole or not at all, and never over another."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twice.errors import LedgerError, UsageError


@contextmanager
def new_file(path: Path, what: str) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end the file gets its name, unless another file has it."""
    path = path.absolute()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise _taken(path, what)
        yield partial
        _name(partial, path, what)
    except OSError as error:
        raise not_written(path, what, error.strerror or str(error)) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _name(partial: Path, path: Path, what: str) -> None:
    try:
        # A link, unlike a rename, never replaces what appeared meanwhile.
        os.link(partial, path)
    except FileExistsError:
        raise _taken(path, what) from None


def _taken(path: Path, what: str) -> UsageError:
    return UsageError(
        f"{path} already exists; {'an' if what[0] in 'aeiou' else 'a'} {what} overwrites nothing",
        unchanged="the file was left as it is",
        next_step=f"give the {what} another name",
    )


def not_written(path: Path, what: str, why: str) -> LedgerError:
    """Return the error of a file that could not be written."""
    return LedgerError(
        f"the {what} {path} cannot be written: {why}",
        unchanged="the ledger is as it was, and no half file was left",
        next_step="choose a directory with space that this user may write to",
    )
