"""Backfills: which processes work on them, what they were asked to do, and how they ended.

running ◀──resume── paused        running ──Ctrl-C, or its process died──▶ interrupted, lost ──resume──▶ running
running ──▶ done, partly (something failed), cancelled
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from twice.errors import LedgerError, UsageError
from twice.ledger.backfills.chunks import Chunks, tallies
from twice.ledger.backfills.infos import BACKFILL_ENDS, OPEN_STATES, BackfillInfo, shadow_of
from twice.ledger.backfills.overlaps import refuse_overlap
from twice.ledger.backfills.shadows import Shadows
from twice.ledger.backfills.workers import forget_worker, live_workers, register
from twice.ledger.db.clock import Clock
from twice.ledger.db.database import Database, insert_new
from twice.ledger.db.encoding import scope_columns, scope_of, storable, to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import backfills, chunks
from twice.ledger.runs.rows import new_id
from twice.ledger.values import Owner
from twice.model.scopes import Scope


class Backfills(LedgerPart):
    """The part of the ledger that follows backfills, with their chunks and their shadows."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self.chunks = Chunks(database, clock)
        self.shadows = Shadows(database, clock)

    def start(
        self,
        pipeline: str,
        scope: Scope,
        tables: Sequence[str],
        *,
        request: Mapping[str, object],
        code: Mapping[str, str],
        parallel: int,
        ttl: timedelta,
        command: str = "",
        owner: Owner | None = None,
        id_: str | None = None,
    ) -> str:
        """Begin a backfill, with this process as its first worker; refused while another works on its partitions."""
        owner = owner or Owner.here()
        with self._write() as connection:
            self.database.lock(connection, backfills)
            now = self._now(connection)
            refuse_overlap(connection, now, scope, tables, but="")
            row = {
                "id": id_ or new_id(now),
                "pipeline": pipeline,
                **scope_columns(scope),
                "tables": to_text(list(tables)),
                "request": to_text(dict(request)),
                "code": to_text(dict(code)),
                "plan": "[]",
                "command": storable(command),
                "status": "running",
                "parallel": parallel,
                "step_index": 0,
                "error": "",
                "shadow": "",
                "started_at": now,
            }
            while not insert_new(connection, backfills, row):
                row["id"] = new_id(now)
            register(connection, str(row["id"]), owner, now + ttl)
        return str(row["id"])

    def new_id(self) -> str:
        """Return an id for a backfill whose tables are named after it."""
        with self._read() as connection:
            return new_id(self._now(connection))

    def join(
        self,
        backfill: str,
        *,
        ttl: timedelta,
        code: Mapping[str, str] | None = None,
        restart: bool = False,
        owner: Owner | None = None,
    ) -> None:
        """Work on a backfill that is not ended; `restart` forgets its chunks, so that all is judged again.

        With other `code` for the step at work its chunks are forgotten but for those that are done.
        """
        owner = owner or Owner.here()
        with self._write() as connection:
            self.database.lock(connection, backfills)
            now = self._now(connection)
            row = _row(connection, backfill)
            # A shadow of which something failed can be completed: no reader has seen it yet.
            shadow = shadow_of(row.shadow)
            unseen = row.status == "partly" and restart and shadow is not None
            if shadow is not None and shadow.state != "building":
                raise UsageError(f"the shadow of backfill {backfill} is {shadow.state}: nothing can be added to it")
            if row.status not in OPEN_STATES and not unseen:
                raise UsageError(f"backfill {backfill} has ended: it is {row.status}", next_step="start a new one")
            refuse_overlap(connection, now, scope_of(row), json.loads(row.tables), but=backfill)
            values: dict[str, object] = {"status": "running", "error": "", "finished_at": None}
            changed = _changed(row, code)
            if restart or changed:
                others = [other for other in live_workers(connection, backfill, now) if other != owner]
                if others:
                    raise backfill_at_work(backfill, others, "--restart" if restart else "--new-code")
            if code is not None:
                values["code"] = to_text(dict(code))
            if restart:
                connection.execute(sa.delete(chunks).where(chunks.c.backfill == backfill))
                values |= {"step_index": 0, "plan": "[]"}
            elif changed:
                values |= _forget_layout(connection, row, changed)
            connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(**values))
            register(connection, backfill, owner, now + ttl)

    def beat(self, backfill: str, ttl: timedelta, owner: Owner | None = None) -> None:
        """Show that this process still works on a backfill."""
        with self._write() as connection:
            register(connection, backfill, owner or Owner.here(), self._now(connection) + ttl)

    def leave(self, backfill: str, *, interrupted: bool = False, owner: Owner | None = None) -> None:
        """Stop working on a backfill; the last one to leave one that is not ended leaves it interrupted."""
        owner = owner or Owner.here()
        with self._write() as connection:
            # In the order in which a chunk's end locks them: first the backfill, then its chunks.
            row = _row(connection, backfill, lock=True)
            forget_worker(connection, backfill, owner)
            mine = (chunks.c.host == owner.host, chunks.c.pid == owner.pid, chunks.c.state == "running")
            now = self._now(connection)
            # No process takes them from a cancelled backfill.
            left = {"state": "cancelled", "finished_at": now} if row.status == "cancelled" else {"state": "waiting"}
            connection.execute(
                sa.update(chunks).where(chunks.c.backfill == backfill, *mine).values(**left, host=None, pid=None)
            )
            if interrupted and row.status in OPEN_STATES and not live_workers(connection, backfill, now):
                values = {"status": "interrupted", "finished_at": now}
                connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(**values))

    def finish(self, backfill: str, status: str, error: str = "") -> bool:
        """End a backfill; only the first end counts. Return whether this was it."""
        if status not in BACKFILL_ENDS:
            raise UsageError(f"the end of a backfill must be one of {', '.join(sorted(BACKFILL_ENDS))}, got {status!r}")
        with self._write() as connection:
            changed = connection.execute(
                sa.update(backfills)
                .where(backfills.c.id == backfill, backfills.c.status.in_(OPEN_STATES))
                .values(status=status, error=storable(error), finished_at=self._now(connection))
            )
            return changed.rowcount == 1

    def pause(self, backfill: str) -> None:
        """Start no further chunk, in any process, from this moment on."""
        self._switch(backfill, "running", "paused")

    def unpause(self, backfill: str) -> None:
        """Let the waiting processes continue."""
        self._switch(backfill, "paused", "running")

    def cancel(self, backfill: str) -> None:
        """End a backfill for good: no chunk starts, and those that wait are given up."""
        with self._write() as connection:
            row = _row(connection, backfill)
            if row.status not in OPEN_STATES:
                raise UsageError(f"backfill {backfill} has already ended: it is {row.status}")
            now = self._now(connection)
            connection.execute(
                sa.update(backfills).where(backfills.c.id == backfill).values(status="cancelled", finished_at=now)
            )
            # Chunks at work are cancelled by their own process, unless it is gone.
            given_up = ["waiting"] if live_workers(connection, backfill, now) else ["waiting", "running"]
            connection.execute(
                sa.update(chunks)
                .where(chunks.c.backfill == backfill, chunks.c.state.in_(given_up))
                .values(state="cancelled", finished_at=now)
            )

    def set_parallel(self, backfill: str, parallel: int) -> None:
        """Change how many chunks may run at once, across all processes."""
        if parallel < 1:
            raise UsageError(f"--parallel must be 1 or more, got {parallel}; `pause` stops all chunks")
        with self._write() as connection:
            row = _row(connection, backfill)
            if row.status not in OPEN_STATES:
                raise UsageError(f"backfill {backfill} has ended: it is {row.status}")
            connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(parallel=parallel))

    def state(self, backfill: str) -> tuple[str, int, int]:
        """Return status, parallelism and the number of the step at work: what its processes poll every second."""
        with self._read() as connection:
            row = _row(connection, backfill)
            return row.status, row.parallel, row.step_index

    def get(self, backfill: str) -> BackfillInfo:
        """Return one backfill by its id, or by the beginning of it if no other begins so."""
        wanted = backfill.strip().lower()
        query = sa.select(backfills).where(backfills.c.id.startswith(wanted, autoescape=True))
        with self._read() as connection:
            rows = connection.execute(query.order_by(backfills.c.id).limit(6)).all() if wanted else []
            rows = [row for row in rows if row.id == wanted] or rows
            if not rows:
                raise UsageError(f"no backfill begins with {backfill!r}", next_step="twice backfill list")
            if len(rows) > 1:
                names = ", ".join(row.id for row in rows[:5]) + (", …" if len(rows) > 5 else "")
                raise UsageError(f"several backfills begin with {backfill!r}: {names}", next_step="give more of the id")
            return _info(connection, rows[0], self._now(connection))

    def _switch(self, backfill: str, before: str, after: str) -> None:
        with self._write() as connection:
            row = _row(connection, backfill)
            if row.status == after:
                return
            if row.status != before:
                raise UsageError(f"backfill {backfill} cannot be {after} now: it is {row.status}")
            connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(status=after))

    def list(self, *, pipeline: str | None = None, limit: int = 50) -> list[BackfillInfo]:
        """List backfills, newest first."""
        query = sa.select(backfills).order_by(backfills.c.started_at.desc(), backfills.c.id.desc()).limit(limit)
        if pipeline is not None:
            query = query.where(backfills.c.pipeline == pipeline)
        with self._read() as connection:
            now = self._now(connection)
            return [_info(connection, row, now) for row in connection.execute(query).all()]


def _row(connection: sa.Connection, backfill: str, *, lock: bool = False) -> Any:
    query = sa.select(backfills).where(backfills.c.id == backfill)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise LedgerError(
            f"backfill {backfill} is not in the ledger",
            unchanged="nothing was changed",
            next_step="the ledger may have been replaced by an older one: twice backfill list",
        )
    return row


def backfill_at_work(backfill: str, owners: Sequence[Owner], option: str) -> UsageError:
    """Build the error of an option that processes at work cannot follow."""
    return UsageError(
        f"{option} cannot be used while other processes work on backfill {backfill}: "
        f"{', '.join(map(str, owners))}, with the code and the chunks that they started with",
        unchanged="nothing was changed; those processes continue",
        next_step=f"end them with Ctrl-C, or wait for them; then twice backfill resume {backfill} {option}",
    )


def _changed(row: Any, code: Mapping[str, str] | None) -> list[str]:
    """Return the steps whose code changed since the backfill began."""
    known = json.loads(row.code)
    return [step for step, now in (code or {}).items() if known.get(step, now) != now]


def _forget_layout(connection: sa.Connection, row: Any, changed: Sequence[str]) -> dict[str, object]:
    """Let the step at work be cut again if its code changed: what held for the old code may not hold for the new."""
    plan = json.loads(row.plan)
    here = (chunks.c.backfill == row.id, chunks.c.step_index == row.step_index)
    # What is blocked waits for other steps.
    left = sa.select(chunks.c.id).where(*here, chunks.c.state.not_in(["done", "blocked"])).limit(1)
    if not plan or plan[-1].get("step") not in changed or connection.scalar(left) is None:
        return {}
    connection.execute(sa.delete(chunks).where(*here, chunks.c.state != "done"))
    connection.execute(sa.update(chunks).where(*here).values(spot_check=False))
    return {"step_index": row.step_index - 1, "plan": to_text(plan[:-1])}


def _info(connection: sa.Connection, row: Any, now: datetime) -> BackfillInfo:
    shadow = shadow_of(row.shadow)
    at_work = row.status in OPEN_STATES or (shadow is not None and shadow.state == "swapping")
    found = tuple(live_workers(connection, row.id, now)) if at_work else ()
    lost = row.status in ("running", "paused") and not found
    return BackfillInfo(
        id=row.id,
        pipeline=row.pipeline,
        scope=scope_of(row),
        tables=tuple(json.loads(row.tables)),
        request=json.loads(row.request),
        code=json.loads(row.code),
        plan=json.loads(row.plan),
        command=row.command,
        status="lost" if lost else row.status,
        parallel=row.parallel,
        step_index=row.step_index,
        error=row.error,
        started_at=row.started_at,
        finished_at=row.finished_at,
        workers=found,
        tallies=tallies(connection, row.id),
        shadow=shadow,
    )
