"""Prune, back up, check and move a ledger."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.admin.files import new_file, not_written
from twice.ledger.admin.moving import ROWS_AT_ONCE, MoveReport, Progress, export_ledger, import_ledger
from twice.ledger.admin.pruning import BATCH, prune
from twice.ledger.admin.reports import Health, PruneReport
from twice.ledger.db.clock import SystemClock
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import tokens


def _silent(_done: int, _all: int) -> None:
    """Report no progress."""


class Admin(LedgerPart):
    """The part of the ledger that keeps it small and safe, and moves it."""

    def prune(self, keep: timedelta, *, dry_run: bool = False, batch: int = BATCH) -> PruneReport:
        """Remove runs, attempts, history, backfills and closed claims older than `keep`.

        Current outputs, open leases and the highest token of every table always stay. One transaction removes at most
        `batch` rows.
        """
        if keep < timedelta(0):
            raise UsageError("prune keeps a span of time; it cannot be negative")
        return prune(self.database, self.clock.now() - keep, dry_run=dry_run, batch=batch)

    def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file; the ledger may be in use meanwhile."""
        try:
            with new_file(path, "backup") as partial:
                self.database.copy_to(partial)
        except sqlite3.Error as error:
            raise not_written(path, "backup", str(error)) from None

    def check(self) -> Health:
        """Try a write and roll it back, to find problems with the disk, rights or locks."""
        with self._write() as connection:
            connection.execute(sa.insert(tokens).values(table_name="twice doctor", highest=0))
            here = SystemClock().now()
            found = Health(self.database.software(connection), self._now(connection) - here)
            connection.rollback()
        return found

    def export_to(self, path: Path, progress: Progress = _silent, *, every: int = ROWS_AT_ONCE) -> MoveReport:
        """Write one state of the ledger to a new file; the ledger may be in use meanwhile.

        `progress` is called every so many rows.
        """
        return export_ledger(self.database, path, self.clock.now(), progress, every=every)

    def import_from(self, path: Path, progress: Progress = _silent) -> MoveReport:
        """Read what `export_to` wrote into an empty ledger: all of it or nothing."""
        return import_ledger(self.database, path, progress)
