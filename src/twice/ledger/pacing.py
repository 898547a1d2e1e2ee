"""The pace of a source: how often it may be called, by all processes that share the ledger."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from twice.ledger.db.database import insert_missing
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import rates


class Pacing(LedgerPart):
    """The part of the ledger that spreads calls over time."""

    def next_call(self, name: str, apart: timedelta) -> float:
        """Reserve the next call of a source, `apart` after the one before; return the seconds until then."""
        with self._write() as connection:
            now = self._now(connection)
            insert_missing(connection, rates, [{"name": name, "next_at": now}])
            row = connection.execute(sa.select(rates).where(rates.c.name == name).with_for_update()).one()
            at = max(row.next_at, now)
            connection.execute(sa.update(rates).where(rates.c.name == name).values(next_at=at + apart))
        return float((at - now).total_seconds())
