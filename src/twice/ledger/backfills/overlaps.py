"""Two backfills never work on the same partitions of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from twice.errors import ScopeHeld
from twice.ledger.backfills.infos import OPEN_STATES, shadow_of
from twice.ledger.backfills.workers import live_workers
from twice.ledger.db.encoding import scope_of
from twice.ledger.db.schema import backfills
from twice.model.scopes import Scope


def refuse_overlap(connection: sa.Connection, now: datetime, scope: Scope, tables: Sequence[str], *, but: str) -> None:
    """Refuse partitions that another backfill's processes are at work on, or wait to work on, or swap in."""
    swaps = backfills.c.shadow.contains("swapping")
    query = sa.select(backfills).where(sa.or_(backfills.c.status.in_(OPEN_STATES), swaps), backfills.c.id != but)
    for row in connection.execute(query.order_by(backfills.c.id)).all():
        shadow = shadow_of(row.shadow)
        swapping = shadow is not None and shadow.state == "swapping"
        held = shadow.tables if shadow is not None and swapping else json.loads(row.tables)
        shared = sorted(set(tables) & set(held))
        if not shared or not scope.overlaps(scope_of(row)):
            continue
        if owners := live_workers(connection, row.id, now):
            what = "whose shadow is being swapped in" if swapping else f"which is {row.status}"
            end = "" if swapping else f"; or end it with twice backfill cancel {row.id}"
            raise ScopeHeld(
                f"{shared[0]} {scope} overlaps with backfill {row.id} ({scope_of(row)}), {what} on {owners[0]}",
                unchanged="nothing was started",
                next_step=f"twice backfill {'show' if swapping else 'watch'} {row.id}{end}",
            )
