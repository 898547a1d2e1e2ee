"""Runs: what was started, how it ended, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.attempts.rows import check_end
from twice.ledger.db.database import insert_new
from twice.ledger.db.encoding import scope_columns, storable, to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import runs
from twice.ledger.runs.costs import Cost, add_up, tags_of_runs
from twice.ledger.runs.infos import RunInfo
from twice.ledger.runs.rows import known_run, new_id, read_runs, saw, store_environment
from twice.ledger.values import Owner
from twice.model.scopes import Scope
from twice.redaction import redacted_pairs

RUN_ENDS = frozenset({"done", "failed", "interrupted", "held"})


class Runs(LedgerPart):
    """The part of the ledger that follows runs."""

    def start(
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

    def finish(self, run: str, status: str, error: str = "") -> None:
        """End a run; the first end counts."""
        check_end(status, RUN_ENDS, "run")
        with self._write() as connection:
            now = self._now(connection)
            changed = connection.execute(
                sa.update(runs)
                .where(runs.c.id == run, runs.c.status == "running")
                .values(status=status, error=storable(error), finished_at=now, seen_at=now)
            )
            if not changed.rowcount:
                known_run(connection, self.database, run)

    def costs(self, by: str, *, since: timedelta | None = None, pipeline: str | None = None) -> list[Cost]:
        """Add up attempts by pipeline, by step, or by a tag of their run; the most expensive come first."""
        with self._read() as connection:
            begin = self._now(connection) - since if since is not None else None
            return add_up(connection, by, since=begin, pipeline=pipeline)

    def tag_names(self) -> list[str]:
        """Name the tags that runs with an attempt have, in order."""
        with self._read() as connection:
            return tags_of_runs(connection)

    def get(self, run: str) -> RunInfo:
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
            return read_runs(connection, self._now(connection), rows)[0]

    def list(self, *, pipeline: str | None = None, limit: int = 50) -> list[RunInfo]:
        """List runs, newest first."""
        query = sa.select(runs).order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        if pipeline is not None:
            query = query.where(runs.c.pipeline == pipeline)
        with self._read() as connection:
            rows = connection.execute(query).all()
            return read_runs(connection, self._now(connection), rows)
