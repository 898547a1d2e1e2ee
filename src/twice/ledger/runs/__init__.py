"""Runs and attempts: what was started, and how it ended."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import sqlalchemy as sa

from twice.errors import LedgerError, UsageError
from twice.ledger.db.database import insert_new
from twice.ledger.db.encoding import details_text, scope_columns, storable, to_text
from twice.ledger.db.part import LedgerPart, saw, store_environment, store_inputs
from twice.ledger.db.schema import attempts, runs
from twice.ledger.values import InputRecord, Owner
from twice.model.scopes import Scope
from twice.redaction import redacted_pairs

RUN_ENDS = frozenset({"done", "failed", "interrupted", "held"})
ATTEMPT_ENDS = frozenset(
    {"published", "unchanged", "fresh", "superseded", "accepted", "failed", "lost", "interrupted", "held"}
)

# Crockford's digits: sortable, and none is mistaken for another.
# What marks an attempt that was no work of its own.
PART = "inside"
# What an attempt's gates found and its run let through: gate, partition, found, because.
ACCEPTED_GATES = "accepted_gates"
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = datetime(2020, 1, 1, tzinfo=timezone.utc)


class Runs(LedgerPart):
    """The part of the ledger that follows runs and attempts."""

    def start_run(
        self,
        pipeline: str,
        scope: Scope,
        *,
        command: str = "",
        tags: Mapping[str, str] | None = None,
        owner: Owner | None = None,
        environment: Mapping[str, object] | None = None,
    ) -> str:
        """Begin a run and return its id; later runs have greater ids. `environment`: what its rows are made with."""
        owner = owner or Owner.here()
        with self._write() as connection:
            now = self._now(connection)
            row = {
                "id": new_id(now),
                "pipeline": pipeline,
                **scope_columns(scope),
                "command": storable(command),
                "tags": to_text(redacted_pairs(tags or {})),
                "host": owner.host,
                "pid": owner.pid,
                "status": "running",
                "error": "",
                "started_at": now,
                "seen_at": now,
                "environment": store_environment(connection, environment),
            }
            while not insert_new(connection, runs, row):
                row["id"] = new_id(now)
        return str(row["id"])

    def beat(self, run: str) -> None:
        """Show that a run without a lease is alive: it waits, plans or starts Spark."""
        with self._write() as connection:
            saw(connection, run, self._now(connection))

    def finish_run(self, run: str, status: str, error: str = "") -> None:
        """End a run; the first end counts."""
        _check(status, RUN_ENDS, "run")
        with self._write() as connection:
            now = self._now(connection)
            changed = connection.execute(
                sa.update(runs)
                .where(runs.c.id == run, runs.c.status == "running")
                .values(status=status, error=storable(error), finished_at=now, seen_at=now)
            )
            if not changed.rowcount:
                self._known_run(connection, run)

    def start_attempt(
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
            pipeline = self._known_run(connection, run)
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
        """Note scopes that failed inside an attempt that did the others, each as an attempt of its own."""
        with self._write() as connection:
            now = self._now(connection)
            pipeline = self._known_run(connection, run)
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

    def finish_attempt(
        self,
        attempt: int,
        status: str,
        *,
        error: str = "",
        transient: bool = False,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """End an attempt; one that a successor has already adopted as published stays so."""
        _check(status, ATTEMPT_ENDS, "attempt")
        with self._write() as connection:
            now = self._now(connection)
            run = connection.scalar(sa.select(attempts.c.run).where(attempts.c.id == attempt))
            if run is None:
                raise LedgerError(
                    f"attempt {attempt} is not in the ledger {self.url}",
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

    def _known_run(self, connection: sa.Connection, run: str) -> str:
        pipeline = connection.scalar(sa.select(runs.c.pipeline).where(runs.c.id == run))
        if pipeline is None:
            raise LedgerError(
                f"run {run} is not in the ledger {self.url}",
                unchanged="nothing was recorded",
                next_step="the ledger may have been replaced by an older one: run again",
            )
        return str(pipeline)


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
    """Keep something about an attempt, beside what is kept already."""
    before = connection.scalar(sa.select(attempts.c.details).where(attempts.c.id == attempt))
    text = details_text({**json.loads(before or "{}"), **details})
    connection.execute(sa.update(attempts).where(attempts.c.id == attempt).values(details=text))


def _check(status: str, known: frozenset[str], what: str) -> None:
    if status not in known:
        raise UsageError(f"a {what} does not end as {status!r}, but as one of {', '.join(sorted(known))}")


def new_id(now: datetime) -> str:
    """Nine digits of time in milliseconds, three of chance."""
    number = max(0, int((now - _EPOCH).total_seconds() * 1000)) * 32**3 + secrets.randbelow(32**3)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(55, -1, -5))
