"""Rows of runs: written and read in a transaction that is open."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from twice.errors import LedgerError
from twice.ledger.attempts.infos import AttemptInfo
from twice.ledger.attempts.reading import live_runs, read_attempts, run_status
from twice.ledger.db.database import Database, insert_missing
from twice.ledger.db.encoding import content_id, details_text, scope_of
from twice.ledger.db.schema import attempts, environments, runs
from twice.ledger.runs.infos import RunInfo
from twice.ledger.values import Owner

# Crockford's digits: sortable, and none is mistaken for another.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = datetime(2020, 1, 1, tzinfo=timezone.utc)


def new_id(now: datetime) -> str:
    """Return an id: nine digits of time in milliseconds, three random ones."""
    number = max(0, int((now - _EPOCH).total_seconds() * 1000)) * 32**3 + secrets.randbelow(32**3)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(55, -1, -5))


def known_run(connection: sa.Connection, database: Database, run: str) -> str:
    """Return the pipeline of a run; refuse a run that the ledger does not hold."""
    pipeline = connection.scalar(sa.select(runs.c.pipeline).where(runs.c.id == run))
    if pipeline is None:
        raise LedgerError(
            f"run {run} is not in the ledger {database.shown}",
            unchanged="nothing was recorded",
            next_step="the ledger may have been replaced by an older one: run again",
        )
    return str(pipeline)


def saw(connection: sa.Connection, run: str | None, now: datetime) -> None:
    """Record that a run's process was alive just now."""
    if run is not None:
        connection.execute(sa.update(runs).where(runs.c.id == run, runs.c.status == "running").values(seen_at=now))


def store_environment(connection: sa.Connection, environment: Mapping[str, object] | None) -> str | None:
    """Store what a run is made with, each distinct content once; return its id."""
    if not environment:
        return None
    text = details_text(environment)
    insert_missing(connection, environments, [{"id": content_id(text), "content": text}])
    return content_id(text)


def read_runs(connection: sa.Connection, now: datetime, rows: Sequence[Any]) -> list[RunInfo]:
    """Return rows of runs with their attempts and environments."""
    alive = live_runs(connection, now)
    tries: dict[str, list[AttemptInfo]] = {row.id: [] for row in rows}
    for attempt in reversed(read_attempts(connection, now, attempts.c.run.in_(list(tries)))):
        tries[attempt.run].append(attempt)
    named = sa.select(environments).where(environments.c.id.in_(sorted({row.environment or "" for row in rows})))
    made_with = {row.id: json.loads(row.content) for row in connection.execute(named)}
    return [
        RunInfo(
            id=row.id,
            pipeline=row.pipeline,
            scope=scope_of(row),
            command=row.command,
            tags=json.loads(row.tags),
            owner=Owner(row.host, row.pid),
            status=run_status(row.status, Owner(row.host, row.pid), row.seen_at, now, lives=row.id in alive),
            error=row.error,
            started_at=row.started_at,
            finished_at=row.finished_at,
            attempts=tuple(tries[row.id]),
            environment=made_with.get(row.environment, {}),
        )
        for row in rows
    ]
