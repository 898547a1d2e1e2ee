"""Reading runs and attempts back; those whose process died without a word are shown as lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.db.encoding import scope_of
from twice.ledger.db.part import LedgerPart, load_inputs
from twice.ledger.db.schema import LIVE, SETTLED, TAKEN, attempts, claims, environments, runs
from twice.ledger.outputs.rows import touching
from twice.ledger.runs.infos import AttemptInfo, RunInfo
from twice.ledger.values import Owner
from twice.model.scopes import Scope
from twice.model.windows import Window

# A run without a live lease counts as lost when nothing was heard of it for this long.
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


class Reading(LedgerPart):
    """The part of the ledger that returns what happened."""

    def runs(self, *, pipeline: str | None = None, limit: int = 50) -> list[RunInfo]:
        """List runs, newest first."""
        query = sa.select(runs).order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        if pipeline is not None:
            query = query.where(runs.c.pipeline == pipeline)
        with self._read() as connection:
            return self._infos(connection, connection.execute(query).all())

    def run(self, run: str) -> RunInfo:
        """Return one run by its id, or by the beginning of it if no other run begins so."""
        wanted = run.strip().lower()
        if not wanted:
            raise UsageError("a run needs an id", next_step="twice runs")
        query = sa.select(runs).where(runs.c.id.startswith(wanted, autoescape=True))
        with self._read() as connection:
            rows = connection.execute(query.order_by(runs.c.id).limit(6)).all()
            rows = [row for row in rows if row.id == wanted] or rows
            if not rows:
                raise UsageError(f"no run begins with {run!r}", next_step="twice runs")
            if len(rows) > 1:
                names = ", ".join(row.id for row in rows[:5]) + (", …" if len(rows) > 5 else "")
                raise UsageError(f"several runs begin with {run!r}: {names}", next_step="give more of the id")
            return self._infos(connection, rows)[0]

    def attempts(self, pipeline: str, window: Window | None = None) -> list[AttemptInfo]:
        """List the attempts whose scope touches a window, newest first."""
        conditions = [attempts.c.pipeline == pipeline]
        if window:
            conditions.append(_touches(window))
        with self._read() as connection:
            return self._attempts(connection, sa.and_(*conditions))

    def last_attempts(self, pipeline: str, step: str, window: Window) -> dict[Scope, AttemptInfo]:
        """Return the newest attempt of a step for each scope that touches a window."""
        newest = (
            sa.select(sa.func.max(attempts.c.id))
            .where(attempts.c.pipeline == pipeline, attempts.c.step == step, _touches(window))
            .group_by(attempts.c.window_start, attempts.c.window_end, attempts.c.dimensions)
        )
        with self._read() as connection:
            found = self._attempts(connection, attempts.c.id.in_(newest))
        return {attempt.scope: attempt for attempt in found}

    def attempt_states(self, ids: Sequence[int]) -> dict[int, str]:
        """Return how some attempts stand now; those whose process is gone are lost."""
        with self._read() as connection:
            return {attempt.id: attempt.status for attempt in self._attempts(connection, attempts.c.id.in_(ids))}

    def _infos(self, connection: sa.Connection, rows: Sequence[Any]) -> list[RunInfo]:
        now = self._now(connection)
        alive = self._alive(connection, now)
        tries: dict[str, list[AttemptInfo]] = {row.id: [] for row in rows}
        for attempt in reversed(self._attempts(connection, attempts.c.run.in_(list(tries)))):
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
                status=_run_status(row.status, Owner(row.host, row.pid), row.seen_at, now, lives=row.id in alive),
                error=row.error,
                started_at=row.started_at,
                finished_at=row.finished_at,
                attempts=tuple(tries[row.id]),
                environment=made_with.get(row.environment, {}),
            )
            for row in rows
        ]

    def _attempts(self, connection: sa.Connection, condition: sa.ColumnElement[bool]) -> list[AttemptInfo]:
        now = self._now(connection)
        alive = self._alive(connection, now)
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

    def _alive(self, connection: sa.Connection, now: datetime) -> set[str]:
        """Return the runs that hold a lease now."""
        query = sa.select(claims.c.run).where(claims.c.state == LIVE, claims.c.expires_at > now)
        return {run for run in connection.scalars(query) if run is not None}


def _touches(window: Window) -> sa.ColumnElement[bool]:
    return sa.or_(attempts.c.window_start.is_(None), touching(window, attempts))


def _run_status(stored: str, owner: Owner, seen_at: datetime, now: datetime, *, lives: bool) -> str:
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
    return "running" if _run_status(row.run_status, owner, row.run_seen_at, now, lives=lives) == "running" else "lost"
