"""What earlier runs of one step show a planner: how long they took, and which windows a merge has seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from twice.ledger.db.encoding import scope_of
from twice.ledger.db.part import LedgerPart, load_inputs
from twice.ledger.db.schema import attempts, runs
from twice.ledger.values import InputRecord
from twice.model.scopes import Scope
from twice.model.windows import Window

_GOOD = ("published", "unchanged")
_ENDS = ("published", "unchanged", "fresh", "superseded", "accepted", "failed", "lost", "interrupted")


@dataclass(frozen=True)
class Past:
    """One attempt that computed something, and the window of its run."""

    scope: Scope
    rows: int | None
    seconds: float
    details: Mapping[str, Any]
    window: Window | None = None


@dataclass(frozen=True)
class Merged:
    """One attempt on a table without partitions, with the scope of its run."""

    scope: Scope
    status: str
    code: str
    error: str
    inputs: tuple[InputRecord, ...]


class History(LedgerPart):
    """The part of the ledger that planners ask."""

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
        mine = (attempts.c.pipeline == pipeline, attempts.c.step == step, attempts.c.status.in_(_ENDS))
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
