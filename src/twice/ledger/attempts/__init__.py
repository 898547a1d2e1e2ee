"""Attempts: what each try of a step did, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from twice.errors import LedgerError
from twice.ledger.attempts.infos import ACCEPTED_GATES, PART, AttemptInfo, LastAttempt, Merged, Past
from twice.ledger.attempts.reading import read_attempts
from twice.ledger.attempts.rows import ATTEMPT_ENDS, check_end, end_attempt
from twice.ledger.db.conditions import touching_or_whole
from twice.ledger.db.encoding import scope_columns, scope_of, second_of, storable, to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import attempts, runs
from twice.ledger.inputs import load_inputs, store_inputs
from twice.ledger.runs.rows import known_run, saw
from twice.ledger.values import InputRecord
from twice.model.scopes import Scope
from twice.model.windows import Window

# Attempts that computed something.
_GOOD = ("published", "unchanged")
# Ends that decide about a window that is merged: all but `held`, which began nothing.
_MERGE_ENDS = tuple(sorted(ATTEMPT_ENDS - {"held"}))


class Attempts(LedgerPart):
    """The part of the ledger that follows attempts."""

    def start(
        self,
        run: str,
        step: str,
        table: str,
        number: int,
        scope: Scope,
        *,
        code: str,
        inputs: Sequence[InputRecord] = (),
    ) -> int:
        """Begin one try of one step and return its id."""
        with self._write() as connection:
            now = self._now(connection)
            pipeline = known_run(connection, self.database, run)
            done = connection.execute(
                sa.insert(attempts).values(
                    run=run,
                    pipeline=pipeline,
                    step=step,
                    table_name=table,
                    number=number,
                    **scope_columns(scope),
                    code=code,
                    inputs=store_inputs(connection, [inputs])[0],
                    status="running",
                    error="",
                    transient=False,
                    details="{}",
                    started_at=now,
                )
            )
            key = done.inserted_primary_key
            saw(connection, run, now)
        return int(key[0]) if key else 0

    def add_failures(
        self, run: str, step: str, table: str, number: int, failures: Mapping[Scope, str], *, code: str
    ) -> None:
        """Record scopes that failed inside an attempt that built the rest, each as an attempt of its own."""
        with self._write() as connection:
            now = self._now(connection)
            pipeline = known_run(connection, self.database, run)
            nothing = store_inputs(connection, [()])[0]
            rows = [
                {
                    "run": run,
                    "pipeline": pipeline,
                    "step": step,
                    "table_name": table,
                    "number": number,
                    **scope_columns(scope),
                    "code": code,
                    "inputs": nothing,
                    "status": "failed",
                    "error": storable(error),
                    "transient": False,
                    "details": to_text({PART: "an attempt that made the others"}),
                    "started_at": now,
                    "finished_at": now,
                }
                for scope, error in failures.items()
            ]
            if rows:
                connection.execute(sa.insert(attempts), rows)

    def finish(
        self,
        attempt: int,
        status: str,
        *,
        error: str = "",
        transient: bool = False,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """End an attempt; one that a successor has already adopted as published stays so."""
        check_end(status, ATTEMPT_ENDS, "attempt")
        with self._write() as connection:
            now = self._now(connection)
            run = connection.scalar(sa.select(attempts.c.run).where(attempts.c.id == attempt))
            if run is None:
                raise LedgerError(
                    f"attempt {attempt} is not in the ledger {self.database.shown}",
                    unchanged="nothing was recorded",
                    next_step="the ledger may have been replaced by an older one: run again",
                )
            end_attempt(
                connection,
                attempt,
                status,
                now,
                error=storable(error),
                transient=transient,
                details=details,
                unless=ATTEMPT_ENDS - {"lost"},
            )
            saw(connection, run, now)

    def states(self, ids: Sequence[int]) -> dict[int, str]:
        """Return how some attempts stand now; those whose process is gone are lost."""
        with self._read() as connection:
            found = read_attempts(connection, self._now(connection), attempts.c.id.in_(ids))
        return {attempt.id: attempt.status for attempt in found}

    def newest(self, pipeline: str, step: str, window: Window) -> list[LastAttempt]:
        """List the newest attempt for each scope that touches a window, oldest first.

        A `running` one is what was recorded: whether its process lives, `states` returns. Attempts that only accepted
        code are left out: they say nothing about a partition's content. So are swaps: one that failed left the
        partitions as they were, and what one published is recorded.
        """
        c = attempts.c
        near = touching_or_whole(window, attempts)
        newest = (
            sa.select(sa.func.max(c.id))
            .where(c.pipeline == pipeline, c.step == step, c.status != "accepted", ~c.code.startswith("swap:"), near)
            .group_by(c.window_start, c.window_end, c.dimensions)
        )
        query = sa.select(
            c.id, c.run, second_of(c.window_start), second_of(c.window_end), c.dimensions, c.status, c.error
        )
        with self._read() as connection:
            rows = connection.execute(query.where(c.id.in_(newest)).order_by(c.id)).all()
        return list(map(LastAttempt._make, rows))

    def accepted_gates(self, pipeline: str, step: str) -> dict[str, list[dict[str, str]]]:
        """Return what runs of a step published although a gate had failed, by run."""
        c = attempts.c
        query = sa.select(c.run, c.details).where(
            c.pipeline == pipeline,
            c.step == step,
            c.status.in_(("published", "unchanged")),
            c.details.contains(f'"{ACCEPTED_GATES}"', autoescape=True),
        )
        with self._read() as connection:
            rows = connection.execute(query).all()
        found: dict[str, list[dict[str, str]]] = {}
        for run, details in rows:
            found.setdefault(run, []).extend(json.loads(details).get(ACCEPTED_GATES, ()))
        return found

    def past(self, pipeline: str, step: str, limit: int = 30) -> list[Past]:
        """Return the newest attempts of a step that computed something."""
        query = (
            sa.select(attempts, runs.c.window_start.label("run_start"), runs.c.window_end.label("run_end"))
            .join(runs, runs.c.id == attempts.c.run)
            .where(attempts.c.pipeline == pipeline, attempts.c.step == step, attempts.c.status.in_(_GOOD))
            .order_by(attempts.c.id.desc())
            .limit(limit)
        )
        with self._read() as connection:
            rows = connection.execute(query).all()
        return [
            Past(
                scope_of(row),
                row.row_count,
                (row.finished_at - row.started_at).total_seconds(),
                json.loads(row.details),
                Window(row.run_start, row.run_end) if row.run_start and row.run_end else None,
            )
            for row in rows
            if row.finished_at is not None
        ]

    def merged(self, pipeline: str, step: str) -> list[Merged]:
        """Return how every attempt of a step ended, oldest first, each for the whole scope of its run."""
        mine = (attempts.c.pipeline == pipeline, attempts.c.step == step, attempts.c.status.in_(_MERGE_ENDS))
        query = sa.select(
            attempts.c.status,
            attempts.c.code,
            attempts.c.error,
            attempts.c.inputs,
            runs.c.window_start,
            runs.c.window_end,
            runs.c.dimensions,
        ).join(runs, runs.c.id == attempts.c.run)
        with self._read() as connection:
            inputs = load_inputs(connection, sa.select(attempts.c.inputs).where(*mine))
            rows = connection.execute(query.where(*mine).order_by(attempts.c.id)).all()
        return [Merged(scope_of(row), row.status, row.code, row.error, inputs[row.inputs]) for row in rows]

    def any(self) -> bool:
        """Return whether anything has run yet."""
        with self._read() as connection:
            return connection.execute(sa.select(attempts.c.id).limit(1)).first() is not None

    def list(self, pipeline: str, window: Window | None = None) -> list[AttemptInfo]:
        """List the attempts whose scope touches a window, newest first."""
        conditions = [attempts.c.pipeline == pipeline]
        if window:
            conditions.append(touching_or_whole(window, attempts))
        with self._read() as connection:
            return read_attempts(connection, self._now(connection), sa.and_(*conditions))
