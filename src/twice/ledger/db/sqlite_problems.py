"""Errors of SQLite as errors of the ledger: what happened to it, what is unchanged, what to do."""

from __future__ import annotations

from pathlib import Path

from twice.errors import LedgerBusy, LedgerError
from twice.redaction import redact

_AS_IT_WAS = "the ledger is as it was before; nothing was recorded"

# What SQLite's message holds; then our error, its message, what is unchanged, and what to do next.
_KNOWN: tuple[tuple[str, type[LedgerError], str, str, str], ...] = (
    (
        "locked",
        LedgerBusy,
        "the ledger {path} is busy: other processes kept it locked for too long",
        _AS_IT_WAS,
        "run the same command again; if it persists, find the process that holds it: fuser -v {path}",
    ),
    (
        "is full",
        LedgerError,
        "the disk that holds the ledger {path} is full",
        _AS_IT_WAS,
        "free some space, then run the same command again",
    ),
    (
        "not a database",
        LedgerError,
        "{path} is not a ledger: it is not a SQLite database",
        "the file was left as it is",
        "name another path as the ledger in twice.toml, or put a backup in its place",
    ),
    (
        "malformed",
        LedgerError,
        "the ledger {path} is damaged",
        "the file was left as it is",
        "put a backup in its place: tokens continue from those in the tables",
    ),
    (
        "readonly",
        LedgerError,
        "the ledger {path} cannot be written: the file or its directory is read-only",
        _AS_IT_WAS,
        "let this user write to {path} and {parent}, or name another ledger in twice.toml",
    ),
    (
        "unable to open",
        LedgerError,
        "the ledger {path} cannot be opened: the file or its directory cannot be read or written",
        "nothing was changed",
        "check {parent} and who may use it, or name another ledger in twice.toml",
    ),
    (
        "no such table",
        LedgerError,
        "the ledger {path} was removed or replaced while it was in use",
        "what was recorded is in the file that was there before",
        "put the file, or a backup of it, back; then run again",
    ),
)


def explain(problem: str, path: Path) -> LedgerError:
    """Return the error that explains SQLite's message."""
    for words, kind, message, unchanged, next_step in _KNOWN:
        if words in problem.lower():
            names = {"path": path, "parent": path.parent}
            return kind(message.format(**names), unchanged=unchanged, next_step=next_step.format(**names))
    return LedgerError(
        f"the ledger {path} could not be used: {redact(problem)}", unchanged=_AS_IT_WAS, next_step="twice doctor"
    )
