"""The processes that work on backfills: alive, silent or gone."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from twice.ledger.db.schema import workers
from twice.ledger.values import Owner


def live_workers(connection: sa.Connection, backfill: str, now: datetime) -> list[Owner]:
    """Name the processes that work on a backfill: with a recent heartbeat, and not known to be gone."""
    query = sa.select(workers).where(workers.c.backfill == backfill, workers.c.expires_at > now)
    owners = [Owner(row.host, row.pid) for row in connection.execute(query.order_by(workers.c.id))]
    return [owner for owner in owners if not owner.is_gone]


def register(connection: sa.Connection, backfill: str, owner: Owner, until: datetime) -> None:
    """Record that a process works on a backfill, until its next heartbeat is due."""
    mine = (workers.c.backfill == backfill, workers.c.host == owner.host, workers.c.pid == owner.pid)
    if not connection.execute(sa.update(workers).where(*mine).values(expires_at=until)).rowcount:
        values = {"backfill": backfill, "host": owner.host, "pid": owner.pid, "expires_at": until}
        connection.execute(sa.insert(workers).values(**values))


def forget_worker(connection: sa.Connection, backfill: str, owner: Owner) -> None:
    """Record that a process no longer works on a backfill."""
    connection.execute(
        sa.delete(workers).where(
            workers.c.backfill == backfill, workers.c.host == owner.host, workers.c.pid == owner.pid
        )
    )
