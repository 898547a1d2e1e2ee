"""Errors of a database as errors of ours, with what to do next, and without passwords."""

from __future__ import annotations

import re
from typing import Any

from twice.errors import EnvironmentProblem, PermanentError, SchemaRefused, StoreRefused, TransientError, TwiceError

_UNCHANGED = "nothing was published; the last good version stays readable"
_LOCKED = (
    "another transaction holds a lock",
    "look for a transaction that was left open in the database, or run it again later",
)
# SQLSTATE classes of transient errors: connections, rollbacks, resources, operator intervention.
_TRANSIENT = ("08", "40", "53", "57P", "55P03", "55006", "25P03", "57014")
# Parts of messages of SQLite and of drivers without SQLSTATE; then the kind of error, and what to do about it.
_WORDS: tuple[tuple[str, type[TwiceError], str, str], ...] = (
    ("locked", TransientError, *_LOCKED),
    ("is full", PermanentError, "the disk is full", "free some space, then run it again"),
    ("readonly", StoreRefused, "it cannot be written", "let this user write to the file and to its folder"),
    ("unable to open", StoreRefused, "the file cannot be opened", "check the url of the store, and who may use it"),
    ("not a database", StoreRefused, "the file is not a SQLite database", "correct the url of the store"),
    ("malformed", StoreRefused, "the file is damaged", "put a backup in its place"),
    ("disk i/o", TransientError, "the disk did not answer", "run it again; if it persists, check the disk"),
    ("password", StoreRefused, "the user or password was not accepted", "correct the url of the store"),
    ("authentication", StoreRefused, "the user or password was not accepted", "correct the url of the store"),
    ("does not exist", StoreRefused, "the database does not exist", "create it, or correct the url of the store"),
    ("refused", TransientError, "the server cannot be reached", "run it again once the server is up"),
    ("timeout", TransientError, "the server did not answer in time", "run it again later"),
    ("could not translate", TransientError, "the server's name is not known", "check the host in the store's url"),
    ("resolve", TransientError, "the server's name is not known", "check the host in the store's url"),
    ("closed", TransientError, "the connection was lost", "run it again later"),
    ("connection", TransientError, "the connection failed", "run it again later"),
)


def state_of(error: BaseException) -> str:
    """Return the SQLSTATE of a driver's error; empty if it has none."""
    found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return str(found or "")


def is_definite(error: BaseException) -> bool:
    """Return whether the database itself refused a commit, so that nothing landed."""
    return state_of(error)[:2] in {"23", "40", "22", "44"}


def explain(error: BaseException, shown: str, secrets: tuple[str, ...] = ()) -> TwiceError:
    """Return the error that explains a driver's message; `shown` is the database without password."""
    state = state_of(error)
    text = _first_line(str(error), secrets)
    if state:
        return _by_state(state, text, error, shown)
    for words, kind, what, next_step in _WORDS:
        if words in str(error).lower():
            return kind(f"{shown}: {what} ({text})", unchanged=_UNCHANGED, next_step=next_step)
    if type(error).__name__ in {"IntegrityError", "DataError"}:
        return SchemaRefused(
            f"{shown}: a value does not fit its column ({text})",
            unchanged=_UNCHANGED,
            next_step="correct the value in the step, or the column",
        )
    if type(error).__name__ in {"OperationalError", "InterfaceError"}:
        return TransientError(f"{shown}: {text}", unchanged=_UNCHANGED, next_step="run it again later")
    return PermanentError(
        f"{shown}: {text}", unchanged=_UNCHANGED, next_step="correct the table or the step, then run it again"
    )


def missing_driver(shown: str, package: str) -> EnvironmentProblem:
    """Return the error of a driver that is not installed."""
    return EnvironmentProblem(
        f"{shown}: the driver for this database is not installed", next_step=f"pip install '{package}'"
    )


def _by_state(state: str, text: str, error: BaseException, shown: str) -> TwiceError:
    if state in {"55P03", "55006"}:
        return TransientError(f"{shown}: {_LOCKED[0]} ({text})", unchanged=_UNCHANGED, next_step=_LOCKED[1])
    if state.startswith(_TRANSIENT):
        return TransientError(f"{shown}: {text}", unchanged=_UNCHANGED, next_step="run it again later")
    if state.startswith("28") or state == "3D000":
        what = "the database does not exist" if state == "3D000" else "the user or password was not accepted"
        return StoreRefused(
            f"{shown}: {what}",
            unchanged="nothing was changed",
            next_step="correct the url of the store; ${NAME} reads a password from the environment",
        )
    if state == "42501":
        return StoreRefused(
            f"{shown}: {text}", unchanged=_UNCHANGED, next_step="ask the owner for the right: GRANT … ON … TO …"
        )
    if state.startswith(("22", "23")):
        return SchemaRefused(
            f"{shown}: a value does not fit{_where(error)}: {text}",
            unchanged=_UNCHANGED,
            next_step="correct the value in the step, or change the column",
        )
    return PermanentError(
        f"{shown}: {text}", unchanged=_UNCHANGED, next_step="correct the table or the step, then run it again"
    )


def _where(error: BaseException) -> str:
    """Name the column or constraint that refused; rows themselves are never quoted."""
    about: Any = getattr(error, "diag", None)
    if about is None:
        return ""
    if about.constraint_name:
        return f" the constraint {about.constraint_name}"
    if about.column_name:
        return f" the column {about.column_name}"
    # COPY names the column in its context, followed by the value, which may be personal.
    column = re.search(r"column ([^\s:]+|\"[^\"]+\")", about.context or "")
    return f" the column {column[1]}" if column else ""


def _first_line(text: str, secrets: tuple[str, ...]) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0] if lines else "no reason was given"
    for secret in secrets:
        reason = reason.replace(secret, "***")
    return reason
