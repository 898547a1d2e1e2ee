"""Errors of Postgres as errors of the ledger: what happened to it, what is unchanged, what to do."""

from __future__ import annotations

from twice.errors import LedgerBusy, LedgerError

_AS_IT_WAS = "the ledger is as it was before; nothing was recorded"
_UNKNOWN = "whether the last transaction was recorded is looked up by the next run"

# What begins the server's code; then our error, its message, what is unchanged, and what to do next.
_BY_CODE: tuple[tuple[tuple[str, ...], type[LedgerError], str, str, str], ...] = (
    (
        ("55P03", "57014"),
        LedgerBusy,
        "the ledger {url} is busy: other processes kept it locked for too long",
        _AS_IT_WAS,
        "run the same command again; if it persists, find the process that holds it: SELECT * FROM pg_stat_activity",
    ),
    (
        ("40", "23503", "23505"),
        LedgerBusy,
        "the ledger {url} was changed by another process at the same moment",
        _AS_IT_WAS,
        "run the same command again",
    ),
    (
        ("42501",),
        LedgerError,
        "the user may not use the ledger {url}: {reason}",
        _AS_IT_WAS,
        'let it own the schema (CREATE SCHEMA "{schema}" AUTHORIZATION user), or name another user in twice.toml',
    ),
    (
        ("25006",),
        LedgerError,
        "the ledger {url} cannot be written: the server accepts no changes (is it a standby?)",
        _AS_IT_WAS,
        "name the primary server in twice.toml",
    ),
    (
        ("42P01", "3F000"),
        LedgerError,
        "the ledger {url} was removed or replaced while it was in use",
        "what was recorded is in the schema that was there before",
        "put the schema, or a backup of it, back; then run again",
    ),
    (
        ("53100",),
        LedgerError,
        "the disk of the server that holds the ledger {url} is full",
        _AS_IT_WAS,
        "free some space, then run the same command again",
    ),
    (
        ("53", "57P03"),
        LedgerBusy,
        "the server of the ledger {url} has no room for another connection now: {reason}",
        _AS_IT_WAS,
        "run the same command again; a pooler in front of the server helps many workers",
    ),
    (
        ("08", "57P", "25P03"),
        LedgerBusy,
        "the server of the ledger {url} ended the connection: {reason}",
        _UNKNOWN,
        "run the same command again",
    ),
)

# A refused connection has no code, only a text.
_BY_WORDS: tuple[tuple[tuple[str, ...], type[LedgerError], str, str, str], ...] = (
    (
        ("too many", "connection slots", "no more connections", "starting up", "shutting down", "recovery mode"),
        LedgerBusy,
        "the server of the ledger {url} accepts no connection now: {reason}",
        "nothing was changed",
        "run the same command again; a pooler in front of the server helps many workers",
    ),
    (
        ("password", "authentication failed", "sasl", 'role "', "pg_hba.conf", "permission denied"),
        LedgerError,
        "the server of the ledger {url} refuses the user: {reason}",
        "nothing was changed",
        "check user and password of the ledger in twice.toml and the environment",
    ),
    (
        ("does not exist", "no such database"),
        LedgerError,
        "the server of the ledger {url} has no such database: {reason}",
        "nothing was changed",
        "create the database, or name another one in twice.toml",
    ),
    (
        ("invalid uri", "invalid connection option", "invalid sslmode", "invalid integer", "bad value"),
        LedgerError,
        "the URL of the ledger {url} holds what Postgres does not understand: {reason}",
        "nothing was changed",
        "correct the URL of the ledger in twice.toml",
    ),
    (
        ("server closed the connection", "connection is lost", "connection is closed", "broken pipe", "reset by peer"),
        LedgerBusy,
        "the connection to the ledger {url} was lost: {reason}",
        _UNKNOWN,
        "run the same command again",
    ),
)


def explain(code: str | None, reason: str, url: str, schema: str) -> LedgerError:
    """Return the error that explains the server's code, or the driver's message."""
    # The first line has the reason; the rest repeats it for every address of the host.
    words = {"url": url, "schema": schema, "reason": (reason.splitlines() or ["no reason given"])[0].strip()}
    if code is not None:
        for codes, kind, message, unchanged, next_step in _BY_CODE:
            if code.startswith(codes):
                return kind(message.format(**words), unchanged=unchanged, next_step=next_step.format(**words))
        return LedgerError(
            f"the ledger {url} could not be used: {words['reason']} ({code})",
            unchanged=_AS_IT_WAS,
            next_step="twice doctor",
        )
    for marks, kind, message, unchanged, next_step in _BY_WORDS:
        if any(mark in reason.lower() for mark in marks):
            return kind(message.format(**words), unchanged=unchanged, next_step=next_step)
    return LedgerBusy(
        f"the ledger {url} cannot be reached: {words['reason']}",
        unchanged="nothing was changed",
        next_step="check host and port of the ledger in twice.toml, and that the server runs; then run again",
    )
