"""What every partition of a table holds, read lean: for lists of a hundred thousand and more.

Windows come as texts of whole seconds in UTC, `2026-04-25T00:00:00`: they sort, and no grain is finer.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import NamedTuple

import sqlalchemy as sa

from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import CURRENT, attempts, input_sets, outputs
from twice.ledger.outputs.rows import touching
from twice.ledger.runs import ACCEPTED_GATES
from twice.model.windows import Window


class Holding(NamedTuple):
    """One partition as its last publish left it; `inputs` names a list that `input_texts` holds."""

    start: str | None
    end: str | None
    dimensions: str
    rows: int
    digest: str
    files: str
    code: str
    inputs: str
    run: str | None


class LastAttempt(NamedTuple):
    """The newest attempt for one scope of a step."""

    id: int
    run: str
    start: str | None
    end: str | None
    dimensions: str
    status: str
    error: str


def second(instant: datetime) -> str:
    """Return an instant as holdings show it."""
    return instant.astimezone(timezone.utc).isoformat()[:19]


def _second(column: sa.Column[datetime]) -> sa.ColumnElement[str]:
    return sa.func.substr(sa.type_coerce(column, sa.String), 1, 19)


class Holdings(LedgerPart):
    """The part of the ledger that lists partitions by the hundred thousand."""

    def holdings(self, table: str, window: Window | None = None) -> list[Holding]:
        """List what the partitions of a window hold, all of them without a window, oldest first."""
        c = outputs.c
        query = sa.select(
            _second(c.window_start),
            _second(c.window_end),
            c.dimensions,
            c.row_count,
            c.digest,
            c.files,
            c.code,
            c.inputs,
            c.run,
        )
        query = query.where(*_chosen(table, window)).order_by(c.window_start.nulls_first())
        with self._read() as connection:
            rows = connection.execute(query).all()
        return list(map(Holding._make, rows))

    def input_texts(self, table: str, window: Window | None = None) -> dict[str, str]:
        """Return the lists of inputs that the holdings name, each as its JSON text."""
        named = sa.select(outputs.c.inputs).where(*_chosen(table, window))
        query = sa.select(input_sets.c.id, input_sets.c.content).where(input_sets.c.id.in_(named))
        with self._read() as connection:
            rows = connection.execute(query).all()
        return {key: text for key, text in rows}  # noqa: C416 - rows are no tuples for the type checker

    def newest_attempts(self, pipeline: str, step: str, window: Window) -> list[LastAttempt]:
        """List the newest attempt for each scope that touches a window, oldest first.

        A `running` one is what was recorded: whether its process lives, `last_attempts` returns. Attempts
        that only accepted code are left out: they say nothing about a partition's content. So are swaps: one that
        failed left the partitions as they were, and what one published is recorded.
        """
        c = attempts.c
        near = sa.or_(c.window_start.is_(None), touching(window, attempts))
        newest = (
            sa.select(sa.func.max(c.id))
            .where(c.pipeline == pipeline, c.step == step, c.status != "accepted", ~c.code.startswith("swap:"), near)
            .group_by(c.window_start, c.window_end, c.dimensions)
        )
        query = sa.select(c.id, c.run, _second(c.window_start), _second(c.window_end), c.dimensions, c.status, c.error)
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


def _chosen(table: str, window: Window | None) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = [outputs.c.table_name == table, outputs.c.state == CURRENT]
    if window:
        conditions.append(sa.or_(outputs.c.window_start.is_(None), touching(window)))
    return conditions
