"""Prune what is old, and copy the ledger while it is in use."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from twice.errors import LedgerError, UsageError
from twice.ledger.book import Book
from twice.ledger.infos import PruneReport
from twice.ledger.schema import OPEN, SUPERSEDED, attempts, claims, input_sets, outputs, runs

# Rows per transaction, so that nobody waits long for a prune.
_BATCH = 2_000


class Housekeeping(Book):
    """The part of the ledger that keeps it small and safe."""

    def prune(self, keep: timedelta, *, dry_run: bool = False) -> PruneReport:
        """Remove runs, attempts, history and closed claims older than `keep`.

        Current outputs, open leases and the highest token of every table always stay.
        """
        if keep < timedelta(0):
            raise UsageError("prune keeps a span of time; it cannot be negative")
        before = self.clock.now() - keep
        counts: dict[str, int] = {}
        # The order matters: a run goes after its claims, pinned inputs go after whatever names them.
        doomed = {
            "outputs": (outputs, _old_outputs(before)),
            "claims": (claims, _old_claims(before)),
            "attempts": (attempts, _old_attempts(before)),
            "runs": (runs, _old_runs(before)),
            "inputs": (input_sets, _unused_inputs()),
        }
        if dry_run:
            # The same statements, all undone: what is shown is what would happen.
            with self._write() as connection:
                for name, (table, ids) in doomed.items():
                    counts[name] = _delete(connection, table, ids)
                connection.rollback()
        else:
            for name, (table, ids) in doomed.items():
                counts[name] = self._in_batches(table, ids)
        return PruneReport(before=before, dry_run=dry_run, **counts)

    def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file; the ledger may be in use meanwhile."""
        path = path.absolute()
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _no_backup(path, error.strerror or str(error)) from None
        try:
            self._copy_to(partial)
            # A link, unlike a rename, never replaces what appeared meanwhile.
            os.link(partial, path)
        except FileExistsError:
            raise UsageError(
                f"{path} exists already; a backup overwrites nothing",
                safe="the file was left as it is",
                to_go_on="give the backup another name",
            ) from None
        except OSError as error:
            raise _no_backup(path, error.strerror or str(error)) from None
        except sqlite3.Error as error:
            raise _no_backup(path, str(error)) from None
        finally:
            with contextlib.suppress(OSError):
                partial.unlink()

    def _copy_to(self, partial: Path) -> None:
        with self._database.explained(), self._database.engine.connect() as source:
            driver = source.connection.driver_connection
            if not isinstance(driver, sqlite3.Connection):
                raise LedgerError(f"{self.url} is no SQLite ledger; back it up with its database's own tools")
            with contextlib.closing(sqlite3.connect(partial)) as target:
                driver.backup(target)

    def _in_batches(self, table: sa.Table, ids: sa.Select[tuple[object]]) -> int:
        total = 0
        while True:
            with self._write() as connection:
                removed = _delete(connection, table, ids.limit(_BATCH))
            total += removed
            if removed < _BATCH:
                return total


def _delete(connection: sa.Connection, table: sa.Table, ids: sa.Select[tuple[object]]) -> int:
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


def _unused_inputs() -> sa.Select[tuple[object]]:
    used = sa.union_all(sa.select(outputs.c.inputs), sa.select(attempts.c.inputs))
    return sa.select(input_sets.c.id).where(input_sets.c.id.not_in(used))


def _no_backup(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"the backup {path} cannot be written: {why}",
        safe="the ledger is as it was, and no half backup was left",
        to_go_on="choose a directory with space that this user may write to",
    )
