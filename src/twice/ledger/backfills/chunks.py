"""Chunks of a backfill: laid out once, taken by one process at a time, split where something is wrong.

waiting ──take──▶ running ──▶ done, failed        running ──its process is gone──▶ waiting
running ──split──▶ (gone; its parts wait)         waiting ──▶ blocked, cancelled
done ──a partition differed when computed alone──▶ (gone; its parts wait)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.backfills.infos import CHUNK_ENDS, Chunk, NewChunk, Tally
from twice.ledger.backfills.step_notes import add_to_note, note_of, note_split
from twice.ledger.backfills.workers import live_workers
from twice.ledger.db.encoding import scope_columns, scope_of, storable, to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import backfills, chunks
from twice.ledger.values import Owner


class Chunks(LedgerPart):
    """The part of the ledger that hands out the chunks of a backfill."""

    def lay_out(
        self, backfill: str, step_index: int, step: str, wanted: Sequence[NewChunk], note: Mapping[str, object]
    ) -> bool:
        """Cut the next step of a backfill into chunks; False if another process was faster."""
        with self._write() as connection:
            row = _locked(connection, backfill)
            if row.step_index != step_index - 1 or row.status not in ("running", "paused"):
                return False
            # Left of a layout for other code: those are done, and stay so.
            made = connection.scalar(
                sa.select(sa.func.max(chunks.c.id)).where(
                    chunks.c.backfill == backfill, chunks.c.step_index == step_index
                )
            )
            plan = [*json.loads(row.plan), {**note, "after": made or 0}]
            connection.execute(
                sa.update(backfills).where(backfills.c.id == backfill).values(step_index=step_index, plan=to_text(plan))
            )
            rows = [_new(backfill, step_index, step, number, chunk) for number, chunk in enumerate(wanted)]
            for first in range(0, len(rows), 1_000):
                connection.execute(sa.insert(chunks), rows[first : first + 1_000])
            return True

    def take(
        self,
        backfill: str,
        *,
        check: bool = False,
        in_order: bool = False,
        limit: int | None = None,
        owner: Owner | None = None,
    ) -> Chunk | None:
        """Take the next chunk of the step at work; None while nothing may start.

        `check` asks that the chunk is checked by one of its partitions alone, as long as none of the step was compared;
        `in_order`, that none is taken before those of earlier partitions have ended.
        """
        owner = owner or Owner.here()
        with self._write() as connection:
            row = _locked(connection, backfill)
            if row.status != "running":
                return None
            now = self._now(connection)
            here = (chunks.c.backfill == backfill, chunks.c.step_index == row.step_index)
            running = connection.execute(sa.select(chunks).where(*here, chunks.c.state == "running")).all()
            alive = set(live_workers(connection, backfill, now))
            orphans = [found.id for found in running if Owner(found.host, found.pid) not in alive]
            if orphans:
                connection.execute(
                    sa.update(chunks).where(chunks.c.id.in_(orphans)).values(state="waiting", host=None, pid=None)
                )
            busy = len(running) - len(orphans)
            if busy >= row.parallel or (limit is not None and busy >= limit) or (in_order and busy):
                return None
            found = _next(connection, here, now, in_order=in_order)
            if found is None:
                return None
            note = note_of(row, row.step_index)
            spot_check = check and found.partitions > 1 and not note.get("compared") and not note.get("one_by_one")
            connection.execute(
                sa.update(chunks)
                .where(chunks.c.id == found.id)
                .values(
                    state="running",
                    spot_check=spot_check,
                    tries=found.tries + 1,
                    host=owner.host,
                    pid=owner.pid,
                    run=None,
                    started_at=now,
                    finished_at=None,
                )
            )
            return _chunk(connection.execute(sa.select(chunks).where(chunks.c.id == found.id)).one())

    def name_run(self, chunk: Chunk, run: str) -> None:
        """Record which run works on a chunk."""
        with self._write() as connection:
            connection.execute(sa.update(chunks).where(*_mine(chunk)).values(run=run))

    def finish(
        self,
        chunk: Chunk,
        state: str,
        *,
        rows: int | None = None,
        refused: Mapping[str, str] | None = None,
        error: str = "",
        compared: bool = False,
        alone: Sequence[NewChunk] = (),
    ) -> bool:
        """End a chunk that is still this process's.

        `compared`: one of its step's partitions was computed alone and is equal. If another process has found one that
        is not, a chunk of several is not done: its partitions wait for jobs of their own, `alone`.
        """
        if state not in CHUNK_ENDS:
            raise UsageError(f"the end of a chunk must be one of {', '.join(sorted(CHUNK_ENDS))}, got {state!r}")
        with self._write() as connection:
            if compared or len(alone) > 1:
                row = _locked(connection, chunk.backfill)
                note = note_of(row, chunk.step_index)
                if state == "done" and len(alone) > 1 and note.get("one_by_one"):
                    if connection.execute(sa.delete(chunks).where(*_mine(chunk))).rowcount:
                        _insert_parts(connection, chunk, alone)
                    return False
                if compared and not note.get("compared"):
                    add_to_note(connection, row, chunk.step_index, compared=True)
            changed = connection.execute(
                sa.update(chunks)
                .where(*_mine(chunk))
                .values(
                    state=state,
                    row_count=rows,
                    refused=storable(to_text(dict(refused or {}))),
                    error=storable(error),
                    finished_at=self._now(connection),
                )
            )
            return changed.rowcount == 1

    def put_back(self, chunk: Chunk, *, wait: timedelta = timedelta(0)) -> None:
        """Let a chunk wait for another try, not before some time has passed."""
        with self._write() as connection:
            later = self._now(connection) + wait
            connection.execute(
                sa.update(chunks).where(*_mine(chunk)).values(state="waiting", host=None, pid=None, not_before=later)
            )

    def split(self, chunk: Chunk, parts: Sequence[NewChunk]) -> bool:
        """Put the parts of a chunk in which something is wrong into its place; they are not joined again."""
        with self._write() as connection:
            row = _locked(connection, chunk.backfill)
            if not connection.execute(sa.delete(chunks).where(*_mine(chunk))).rowcount:
                return False
            _insert_parts(connection, chunk, parts)
            note_split(connection, row, chunk.step_index, chunk.scope.window)
            return True

    def go_one_by_one(self, chunk: Chunk, alone: Callable[[Chunk], Sequence[NewChunk]], why: str) -> None:
        """Give every partition of a step a job of its own from here on, also those that were made together.

        `alone` cuts a chunk into such jobs. Chunks of several that are at work elsewhere are cut when they end.
        """
        with self._write() as connection:
            row = _locked(connection, chunk.backfill)
            first = note_of(row, chunk.step_index).get("after", 0)
            add_to_note(connection, row, chunk.step_index, check=False, size=1, batched=False, one_by_one=True, why=why)
            here = (chunks.c.backfill == chunk.backfill, chunks.c.step_index == chunk.step_index, chunks.c.id > first)
            ended = sa.select(chunks).where(*here, chunks.c.state.in_(["waiting", "done"]))
            mine = sa.select(chunks).where(*_mine(chunk))
            for found in map(_chunk, [*connection.execute(mine).all(), *connection.execute(ended).all()]):
                if len(parts := alone(found)) > 1:
                    connection.execute(sa.delete(chunks).where(chunks.c.id == found.id))
                    _insert_parts(connection, found, parts)

    def step_note(self, backfill: str, step_index: int) -> dict[str, Any]:
        """Return how a step of a backfill was cut, and what has been learnt about it since."""
        with self._read() as connection:
            query = sa.select(backfills.c.plan).where(backfills.c.id == backfill)
            return note_of(connection.execute(query).one(), step_index)

    def recut(self, old: Sequence[Chunk], new: Sequence[NewChunk]) -> bool:
        """Replace waiting chunks by new ones over the same partitions, unless one of them was taken meanwhile.

        Nothing is replaced if each partition of the step got its own job.
        """
        ids = [chunk.id for chunk in old]
        with self._write() as connection:
            if note_of(_locked(connection, old[0].backfill), old[0].step_index).get("one_by_one"):
                return False
            gone = 0
            for first in range(0, len(ids), 500):
                batch = chunks.c.id.in_(ids[first : first + 500])
                gone += connection.execute(sa.delete(chunks).where(batch, chunks.c.state == "waiting")).rowcount
            if gone != len(ids):
                connection.rollback()
                return False
            _insert_parts(connection, old[0], new)
            return True

    def give_up_waiting(self, backfill: str, step_index: int, state: str, error: str) -> int:
        """End all chunks of a step that no process has taken."""
        with self._write() as connection:
            waiting = (chunks.c.backfill == backfill, chunks.c.step_index == step_index, chunks.c.state == "waiting")
            values = {"state": state, "error": storable(error), "finished_at": self._now(connection)}
            return connection.execute(sa.update(chunks).where(*waiting).values(**values)).rowcount

    def tallies(self, backfill: str) -> tuple[Tally, ...]:
        """Count the partitions of a backfill by step and state."""
        with self._read() as connection:
            return tallies(connection, backfill)

    def list(self, backfill: str, *, step_index: int | None = None, states: Sequence[str] = ()) -> list[Chunk]:
        """List chunks in the order in which they run."""
        query = sa.select(chunks).where(chunks.c.backfill == backfill)
        if step_index is not None:
            query = query.where(chunks.c.step_index == step_index)
        if states:
            query = query.where(chunks.c.state.in_(list(states)))
        with self._read() as connection:
            rows = connection.execute(query.order_by(chunks.c.step_index, chunks.c.position, chunks.c.id)).all()
        return [_chunk(row) for row in rows]


def tallies(connection: sa.Connection, backfill: str) -> tuple[Tally, ...]:
    """Count partitions by step and state, in the order of the steps."""
    summed = (
        sa.select(
            chunks.c.step_index,
            chunks.c.step,
            chunks.c.state,
            sa.func.sum(chunks.c.partitions).label("partitions"),
            sa.func.sum(sa.func.coalesce(chunks.c.row_count, 0)).label("row_count"),
        )
        .where(chunks.c.backfill == backfill)
        .group_by(chunks.c.step_index, chunks.c.step, chunks.c.state)
        .order_by(chunks.c.step_index)
    )
    refused = sa.select(chunks.c.step, chunks.c.refused).where(chunks.c.backfill == backfill, chunks.c.refused != "{}")
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(summed):
        counts = found.setdefault(row.step, {})
        counts[row.state] = int(row.partitions)
        counts["rows"] = counts.get("rows", 0) + int(row.row_count)
    for step, reasons in connection.execute(refused).all():
        bad = len(json.loads(reasons))
        found[step]["failed"] = found[step].get("failed", 0) + bad
        found[step]["done"] = found[step].get("done", 0) - bad
    return tuple(Tally(step, **counts) for step, counts in found.items())


def _next(
    connection: sa.Connection, here: Sequence[sa.ColumnElement[bool]], now: datetime, *, in_order: bool
) -> Any | None:
    """Find the chunk that is to be taken now, if there is one."""
    query = sa.select(chunks).where(*here, chunks.c.state == "waiting").limit(1)
    if in_order:
        # Parts of parts have higher numbers than later parts, so only the window shows which is the first.
        found = connection.execute(query.order_by(chunks.c.window_start, chunks.c.id)).one_or_none()
        return found if found is None or found.not_before is None or found.not_before <= now else None
    ready = sa.or_(chunks.c.not_before.is_(None), chunks.c.not_before <= now)
    return connection.execute(query.where(ready).order_by(chunks.c.position, chunks.c.id)).one_or_none()


def _insert_parts(connection: sa.Connection, whole: Chunk, parts: Sequence[NewChunk]) -> None:
    rows = [_new(whole.backfill, whole.step_index, whole.step, whole.position, part) for part in parts]
    # One place for all of them: the order of their numbers decides within it.
    for row in rows:
        connection.execute(sa.insert(chunks).values(**row))


def _new(backfill: str, step_index: int, step: str, position: int, chunk: NewChunk) -> dict[str, object]:
    return {
        "backfill": backfill,
        "step_index": step_index,
        "step": step,
        "position": position,
        **scope_columns(chunk.scope),
        "partitions": chunk.partitions,
        "state": "blocked" if chunk.blocked else "waiting",
        "spot_check": False,
        "tries": 0,
        "refused": "{}",
        "error": storable(chunk.blocked),
    }


def _mine(chunk: Chunk) -> tuple[sa.ColumnElement[bool], ...]:
    """Match a chunk's row while the process that took it holds it."""
    assert chunk.owner is not None  # noqa: S101 - only of chunks that were taken
    return (
        chunks.c.id == chunk.id,
        chunks.c.state == "running",
        chunks.c.host == chunk.owner.host,
        chunks.c.pid == chunk.owner.pid,
        chunks.c.tries == chunk.tries,
    )


def _locked(connection: sa.Connection, backfill: str) -> Any:
    return connection.execute(sa.select(backfills).where(backfills.c.id == backfill).with_for_update()).one()


def _chunk(row: Any) -> Chunk:
    return Chunk(
        id=row.id,
        backfill=row.backfill,
        step_index=row.step_index,
        step=row.step,
        position=row.position,
        scope=scope_of(row),
        partitions=row.partitions,
        state=row.state,
        spot_check=row.spot_check,
        tries=row.tries,
        owner=Owner(row.host, row.pid) if row.host is not None else None,
        run=row.run,
        rows=row.row_count,
        refused=json.loads(row.refused),
        error=row.error,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
