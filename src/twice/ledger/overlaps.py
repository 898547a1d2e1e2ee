"""Two backfills never work on the same partitions of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from twice.errors import ScopeHeld
from twice.ledger.backfill_infos import OPEN_STATES
from twice.ledger.encoding import scope_of
from twice.ledger.schema import backfills
from twice.ledger.workers import live_workers
from twice.model.scopes import Scope


def refuse_overlap(connection: sa.Connection, now: datetime, scope: Scope, tables: Sequence[str], *, but: str) -> None:
    """Refuse partitions that another backfill's processes are at work on, or wait to work on."""
    query = sa.select(backfills).where(backfills.c.status.in_(OPEN_STATES), backfills.c.id != but)
    for row in connection.execute(query.order_by(backfills.c.id)).all():
        shared = sorted(set(tables) & set(json.loads(row.tables)))
        if not shared or not scope.overlaps(scope_of(row)):
            continue
        if owners := live_workers(connection, row.id, now):
            raise ScopeHeld(
                f"{shared[0]} {scope} overlaps with backfill {row.id} ({scope_of(row)}), which is {row.status} "
                f"on {owners[0]}",
                safe="nothing was started",
                to_go_on=f"twice backfill watch {row.id}; or end it with twice backfill cancel {row.id}",
            )
