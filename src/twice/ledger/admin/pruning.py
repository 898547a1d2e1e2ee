"""Remove what is old."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from twice.ledger.admin.reports import PruneReport
from twice.ledger.db.database import Database
from twice.ledger.db.schema import (
    CURRENT,
    OPEN,
    SUPERSEDED,
    attempts,
    backfills,
    claims,
    effects,
    input_sets,
    outputs,
    runs,
    stream_batches,
    workers,
)
from twice.ledger.effects.records import CONFIRMED, SUPPRESSED

# Rows per transaction, so that no writer waits long for a prune.
BATCH = 2_000


def prune(database: Database, before: datetime, *, dry_run: bool, batch: int) -> PruneReport:
    """Remove what ended before a moment, at most `batch` rows in one transaction."""
    counts: dict[str, int] = {}
    # The order matters: a run goes after its claims, pinned inputs go after whatever names them.
    doomed = {
        "outputs": (outputs, _old_outputs(before)),
        "claims": (claims, _old_claims(before)),
        "attempts": (attempts, _old_attempts(before)),
        "runs": (runs, _old_runs(before)),
        "inputs": (input_sets, _unused_inputs()),
        "backfills": (backfills, _old_backfills(before)),
        "batches": (stream_batches, _old_batches(before)),
    }
    if dry_run:
        # The same statements, rolled back: what is shown is what would happen.
        with database.write() as connection:
            database.lock(connection, input_sets)
            for name, (table, ids) in doomed.items():
                counts[name] = _delete(connection, table, ids)
            connection.rollback()
    else:
        for name, (table, ids) in doomed.items():
            counts[name] = _in_batches(database, table, ids, batch)
    counts |= _prune_effects(database, before, dry_run=dry_run)
    return PruneReport(before=before, dry_run=dry_run, **counts)


def _prune_effects(database: Database, before: datetime, *, dry_run: bool) -> dict[str, int]:
    """Remove effects of partitions that are gone; of the others key, state and generation stay, for good.

    Without them an old day that is run again would be sent again.
    """
    settled = effects.c.state.in_((CONFIRMED, SUPPRESSED))
    old = sa.and_(effects.c.changed_at < before, settled, effects.c.outdated == "")
    kept = sa.exists().where(
        outputs.c.table_name == effects.c.table_name,
        outputs.c.state == CURRENT,
        sa.or_(
            outputs.c.window_start.is_(None),
            effects.c.business_key != "",  # other partitions may hold the same key
            sa.and_(
                outputs.c.dimensions == effects.c.dimensions,
                outputs.c.window_start == effects.c.window_start,
                outputs.c.window_end == effects.c.window_end,
            ),
        ),
    )
    full = sa.or_(effects.c.payload != "", effects.c.response != "", effects.c.error != "", effects.c.note != "")
    emptied = {"payload": "", "response": "", "error": "", "note": "", "run": None}
    # Locked in the order in which claims lock them.
    locked = sa.select(effects.c.key).where(old).order_by(effects.c.subject, effects.c.generation).with_for_update()
    with database.write() as connection:
        connection.execute(sa.select(sa.func.count()).select_from(locked.subquery()))
        removed = connection.execute(sa.delete(effects).where(old, ~kept)).rowcount
        tombstones = connection.execute(sa.update(effects).where(old, kept, full).values(**emptied)).rowcount
        if dry_run:
            connection.rollback()
    return {"effects": removed, "tombstones": tombstones}


def _in_batches(database: Database, table: sa.Table, ids: sa.GenerativeSelect, batch: int) -> int:
    total = 0
    while True:
        with database.write() as connection:
            if table is input_sets:
                # A list that is unused now may be named by a transaction that has not committed yet.
                database.lock(connection, input_sets)
            removed = _delete(connection, table, ids.limit(batch))
        total += removed
        if removed < batch:
            return total


def _delete(connection: sa.Connection, table: sa.Table, ids: sa.GenerativeSelect) -> int:
    return connection.execute(sa.delete(table).where(table.c.id.in_(ids))).rowcount


def _old_outputs(before: datetime) -> sa.Select[tuple[object]]:
    return sa.select(outputs.c.id).where(outputs.c.state == SUPERSEDED, outputs.c.superseded_at < before)


def _old_claims(before: datetime) -> sa.Select[tuple[object]]:
    return sa.select(claims.c.id).where(claims.c.state.not_in(OPEN), claims.c.ended_at < before)


def _ended(before: datetime) -> sa.Select[tuple[object]]:
    """Name the runs that ended, or fell silent, long ago and have no open claim."""
    open_claims = sa.select(claims.c.run).where(claims.c.state.in_(OPEN), claims.c.run.is_not(None))
    return sa.select(runs.c.id).where(runs.c.seen_at < before, runs.c.id.not_in(open_claims))


def _old_attempts(before: datetime) -> sa.Select[tuple[object]]:
    return sa.select(attempts.c.id).where(attempts.c.run.in_(_ended(before)))


def _old_runs(before: datetime) -> sa.Select[tuple[object]]:
    # Attempts go first and in batches: a run that came to life again between two of them keeps the rest.
    return _ended(before).where(~sa.exists().where(attempts.c.run == runs.c.id))


def _old_backfills(before: datetime) -> sa.Select[tuple[object]]:
    """Name the backfills that no process has worked on for long; their chunks go with them."""
    heard = sa.exists().where(workers.c.backfill == backfills.c.id, workers.c.expires_at >= before)
    last = sa.func.coalesce(backfills.c.finished_at, backfills.c.started_at)
    # What is left of a shadow is found by its backfill only.
    left = backfills.c.shadow.contains('"removed":false')
    return sa.select(backfills.c.id).where(last < before, ~heard, ~left)


def _old_batches(before: datetime) -> sa.Select[tuple[object]]:
    """Name the batches of streams that can no longer be replayed; the newest ones say where a stream is."""
    newer = stream_batches.alias("newer")
    same = [newer.c[name] == stream_batches.c[name] for name in ("pipeline", "stream", "query")]
    kept = sa.select(sa.func.max(newer.c.batch)).where(*same).scalar_subquery()
    return sa.select(stream_batches.c.id).where(stream_batches.c.started_at < before, stream_batches.c.batch < kept)


def _unused_inputs() -> sa.CompoundSelect[tuple[object]]:
    return sa.except_(sa.select(input_sets.c.id), sa.select(outputs.c.inputs), sa.select(attempts.c.inputs))
