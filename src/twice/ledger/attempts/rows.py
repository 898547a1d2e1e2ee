"""Rows of attempts: how an attempt ends, and what is kept of it, in a transaction that is open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.db.encoding import details_text
from twice.ledger.db.schema import attempts

ATTEMPT_ENDS = frozenset(
    {"published", "unchanged", "fresh", "superseded", "accepted", "failed", "lost", "interrupted", "held"}
)


def check_end(status: str, known: frozenset[str], what: str) -> None:
    """Refuse a status that a run or an attempt cannot end with."""
    if status not in known:
        raise UsageError(f"the end of a {what} must be one of {', '.join(sorted(known))}, got {status!r}")


def end_attempt(
    connection: sa.Connection,
    attempt: int,
    status: str,
    now: datetime,
    *,
    unless: frozenset[str] = frozenset(),
    error: str = "",
    transient: bool = False,
    details: Mapping[str, object] | None = None,
    rows: int | None = None,
    version: str | None = None,
) -> None:
    """Write an attempt's end, unless it already ended in one of the given ways."""
    values: dict[str, object] = {
        "status": status,
        "error": error,
        "transient": transient,
        "finished_at": now,
    }
    if rows is not None:
        values |= {"row_count": rows, "version": version}
    changed = connection.execute(
        sa.update(attempts).where(attempts.c.id == attempt, attempts.c.status.not_in(sorted(unless))).values(**values)
    )
    if details and changed.rowcount:
        add_details(connection, attempt, details)


def add_details(connection: sa.Connection, attempt: int, details: Mapping[str, object]) -> None:
    """Add details to an attempt, beside those that it already has."""
    before = connection.scalar(sa.select(attempts.c.details).where(attempts.c.id == attempt))
    text = details_text({**json.loads(before or "{}"), **details})
    connection.execute(sa.update(attempts).where(attempts.c.id == attempt).values(details=text))
