"""Rows of outputs: written and read in a transaction that is open."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from twice.ledger.db.conditions import touching
from twice.ledger.db.encoding import scope_columns, scope_of, scope_text, to_text
from twice.ledger.db.schema import CURRENT, PENDING, SUPERSEDED, outputs
from twice.ledger.inputs import load_inputs, store_inputs
from twice.ledger.values import Claim, InputRecord, Output
from twice.model.scopes import Scope
from twice.model.windows import Window

# Written out, not bound: only then does the database see that its index of current outputs applies.
IS_CURRENT = sa.text("outputs.state = 'current'")


def output_row(output: Output, inputs: str, token: int, run: str | None, state: str) -> dict[str, object]:
    """Return an output as the row that holds it."""
    return {
        "table_name": output.table,
        "scope": scope_text(output.scope),
        **scope_columns(output.scope),
        "row_count": output.rows,
        "digest": output.digest,
        "files": output.files,
        "version": output.version,
        "pipeline": output.pipeline,
        "step": output.step,
        "code": output.code,
        "inputs": inputs,
        "run": run,
        "token": token,
        "state": state,
    }


def insert_outputs(connection: sa.Connection, claim: Claim, new: Sequence[Output], state: str, now: datetime) -> None:
    """Insert outputs and their inputs."""
    if not new:
        return
    ids = store_inputs(connection, [output.inputs for output in new])
    rows = [
        output_row(output, inputs, claim.token, claim.run, state) | {"recorded_at": now}
        for output, inputs in zip(new, ids, strict=True)
    ]
    connection.execute(sa.insert(outputs), rows)


def forget(connection: sa.Connection, table: str, token: int) -> None:
    """Drop what a claim prepared and did not publish."""
    connection.execute(
        sa.delete(outputs).where(outputs.c.table_name == table, outputs.c.token == token, outputs.c.state == PENDING)
    )


def adopt(
    connection: sa.Connection, table: str, token: int, now: datetime, version: str | None
) -> tuple[int, str | None]:
    """Make what a vanished claim prepared current; return its rows and version."""
    query = sa.select(outputs).where(
        outputs.c.table_name == table, outputs.c.token == token, outputs.c.state == PENDING
    )
    pending = connection.execute(query).all()
    scopes = [scope_of(row) for row in pending]
    # A process that settles late must not undo what was published since.
    newer = [scope_of(row) for row in _current_near(connection, table, scopes) if row.token > token]
    supersede(connection, table, scopes, now, below=token)
    for row, scope in zip(pending, scopes, strict=True):
        late = any(scope.overlaps(other) for other in newer)
        values: dict[str, Any] = {"state": SUPERSEDED if late else CURRENT, "recorded_at": now}
        values["superseded_at"] = now if late else None
        values["version"] = version if version is not None else row.version
        connection.execute(sa.update(outputs).where(outputs.c.id == row.id).values(**values))
    found = version or next((row.version for row in pending if row.version is not None), None)
    return sum(row.row_count for row in pending), found


def supersede(
    connection: sa.Connection,
    table: str,
    scopes: Sequence[Scope],
    now: datetime,
    *,
    below: int | None = None,
) -> None:
    """Turn current outputs that the given scopes cover into history."""
    rows = [row for row in _current_near(connection, table, scopes) if below is None or row.token <= below]
    old = [row.id for row in covered(scopes, rows)]
    for first in range(0, len(old), 500):
        connection.execute(
            sa.update(outputs)
            .where(outputs.c.id.in_(old[first : first + 500]))
            .values(state=SUPERSEDED, superseded_at=now)
        )


def covered(scopes: Sequence[Scope], rows: Iterable[Any]) -> list[Any]:
    """Pick the rows whose window lies in one of the scopes' and which fix at least its dimensions.

    A scope without a window covers only rows without one: a merge into a table replaces none
    of its partitions.
    """
    whole = [row for row in rows if row.window_start is None]
    dated = sorted((row for row in rows if row.window_start is not None), key=lambda row: row.window_start)
    starts = [row.window_start for row in dated]
    found: dict[int, Any] = {}
    for scope in scopes:
        near = whole
        if scope.window:
            first, last = bisect_left(starts, scope.window.start), bisect_left(starts, scope.window.end)
            near = [row for row in dated[first:last] if row.window_end <= scope.window.end]
        mine = set(scope.dimensions)
        found |= {row.id: row for row in near if mine <= set(scope_of(row).dimensions)}
    return list(found.values())


def _current_near(connection: sa.Connection, table: str, scopes: Sequence[Scope]) -> Sequence[Any]:
    """Read the current outputs that some of the scopes may touch, without their contents."""
    if not scopes:
        return []
    windows = [scope.window for scope in scopes if scope.window]
    near: sa.ColumnElement[bool] = outputs.c.window_start.is_(None)
    if windows:
        hull = Window(min(w.start for w in windows), max(w.end for w in windows))
        near = sa.or_(near, touching(hull, outputs))
    query = sa.select(
        outputs.c.id, outputs.c.token, outputs.c.window_start, outputs.c.window_end, outputs.c.dimensions
    ).where(outputs.c.table_name == table, outputs.c.state == CURRENT, near)
    return connection.execute(query).all()


def current_outputs(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Output]:
    """Read current outputs, in the order of their windows."""
    return read_outputs(connection, *conditions, IS_CURRENT)


def read_outputs(connection: sa.Connection, *conditions: sa.ColumnElement[bool] | sa.TextClause) -> list[Output]:
    """Read outputs of whichever state, in the order of their windows."""
    query = sa.select(outputs).where(*conditions)
    inputs = load_inputs(connection, sa.select(outputs.c.inputs).where(*conditions))
    rows = connection.execute(query.order_by(outputs.c.window_start.nulls_first(), outputs.c.scope)).all()
    return [_output(row, inputs) for row in rows]


def row_counts(connection: sa.Connection, table: str, scope: Scope, limit: int) -> list[int]:
    """Read row counts of nearby partitions, or of earlier contents of a whole table, nearest first."""
    query = sa.select(outputs.c.row_count).where(
        outputs.c.table_name == table, outputs.c.dimensions == to_text(dict(scope.dimensions))
    )
    if scope.window:
        query = query.where(outputs.c.state == CURRENT, outputs.c.window_start < scope.window.start)
        query = query.order_by(outputs.c.window_start.desc())
    else:
        query = query.where(outputs.c.state.in_((CURRENT, SUPERSEDED)), outputs.c.window_start.is_(None))
        query = query.order_by(outputs.c.id.desc())
    return [int(count) for count in connection.scalars(query.limit(limit))]


def _output(row: Any, inputs: Mapping[str, tuple[InputRecord, ...]]) -> Output:
    return Output(
        table=row.table_name,
        scope=scope_of(row),
        rows=row.row_count,
        digest=row.digest,
        files=row.files,
        version=row.version,
        pipeline=row.pipeline,
        step=row.step,
        code=row.code,
        inputs=inputs[row.inputs],
        run=row.run,
        token=row.token,
        recorded_at=row.recorded_at,
    )
