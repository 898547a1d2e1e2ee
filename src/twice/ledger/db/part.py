"""What every part of the ledger is built on: one database and one clock.

Rows are locked in one order, so that no two processes wait for each other: tokens, claims, outputs, input_sets,
attempts, runs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING

from twice.ledger.db.clock import Clock, ServerClock
from twice.ledger.db.database import Database

if TYPE_CHECKING:
    import sqlalchemy as sa


class LedgerPart:
    """A database and a clock."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock

    def _read(self) -> AbstractContextManager[sa.Connection]:
        return self.database.read()

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self.database.write()

    def _now(self, connection: sa.Connection) -> datetime:
        """Return the current time; called after waiting for a lock, it is the time at which the lock was granted."""
        return self.clock.within(connection) if isinstance(self.clock, ServerClock) else self.clock.now()
