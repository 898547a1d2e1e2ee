"""Read attempts back; those whose process ended without recording it are shown as lost."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from twice.ledger.attempts.infos import AttemptInfo
from twice.ledger.db.encoding import scope_of
from twice.ledger.db.schema import LIVE, SETTLED, TAKEN, attempts, claims, runs
from twice.ledger.inputs import load_inputs
from twice.ledger.values import Owner

# A run without a live lease counts as lost when it sent no heartbeat for this long.
SILENCE = timedelta(seconds=60)

_WITH_CLAIM = (
    sa.select(
        attempts,
        claims.c.state.label("claim_state"),
        claims.c.expires_at.label("claim_expires_at"),
        runs.c.status.label("run_status"),
        runs.c.seen_at.label("run_seen_at"),
        runs.c.host.label("run_host"),
        runs.c.pid.label("run_pid"),
    )
    .join(runs, runs.c.id == attempts.c.run)
    .outerjoin(claims, sa.and_(claims.c.table_name == attempts.c.table_name, claims.c.token == attempts.c.token))
)


def read_attempts(connection: sa.Connection, now: datetime, condition: sa.ColumnElement[bool]) -> list[AttemptInfo]:
    """Read attempts, newest first; those whose process is gone are lost."""
    alive = live_runs(connection, now)
    inputs = load_inputs(connection, sa.select(attempts.c.inputs).where(condition))
    rows = connection.execute(_WITH_CLAIM.where(condition).order_by(attempts.c.id.desc()))
    return [
        AttemptInfo(
            id=row.id,
            run=row.run,
            pipeline=row.pipeline,
            step=row.step,
            table=row.table_name,
            scope=scope_of(row),
            number=row.number,
            status=_attempt_status(row, now, lives=row.run in alive),
            code=row.code,
            inputs=inputs[row.inputs],
            token=row.token,
            base_version=row.base_version,
            version=row.version,
            rows=row.row_count,
            error=row.error,
            transient=row.transient,
            details=json.loads(row.details),
            started_at=row.started_at,
            finished_at=row.finished_at,
        )
        for row in rows
    ]


def live_runs(connection: sa.Connection, now: datetime) -> set[str]:
    """Return the runs that hold a lease now."""
    query = sa.select(claims.c.run).where(claims.c.state == LIVE, claims.c.expires_at > now)
    return {run for run in connection.scalars(query) if run is not None}


def run_status(stored: str, owner: Owner, seen_at: datetime, now: datetime, *, lives: bool) -> str:
    """Return how a run stands: one without a recent heartbeat, or whose process is gone, is lost."""
    if stored != "running":
        return stored
    heard = lives or now - seen_at <= SILENCE
    return "running" if heard and not owner.is_gone else "lost"


def _attempt_status(row: Any, now: datetime, *, lives: bool) -> str:
    if row.status != "running":
        return str(row.status)
    owner = Owner(row.run_host, row.run_pid)
    if row.claim_state == LIVE:
        return "running" if row.claim_expires_at > now and not owner.is_gone else "lost"
    if row.claim_state in (TAKEN, SETTLED):
        return "lost"
    # No claim yet, or one that just ended: as alive as its run.
    return "running" if run_status(row.run_status, owner, row.run_seen_at, now, lives=lives) == "running" else "lost"
