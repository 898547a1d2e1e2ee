"""A ledger in a SQLite file: one host, one writer at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from twice.errors import LedgerError
from twice.ledger.db.clock import Clock, SystemClock
from twice.ledger.db.database import BUSY_SECONDS, Database
from twice.ledger.db.sqlite_problems import explain
from twice.redaction import redact

# SQLite takes a shorter file for an empty database and would write over it.
_SMALLEST = 512


class SqliteDatabase(Database):
    """One SQLite file."""

    own = "a file of its own in twice.toml"

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.place = str(path)
        self.shown = redact(f"sqlite:///{path}")
        self.engine = sa.create_engine(
            sa.URL.create("sqlite+pysqlite", database=str(path)),
            poolclass=sa.pool.NullPool,
            connect_args={"timeout": busy_seconds},
        )
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "begin", _begin)

    def look(self, *, create: bool) -> bool:
        try:
            if self.path.is_dir():
                raise _unusable(self.path, "it is a directory")
            if not self.path.exists():
                if create:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                else:
                    _require_room(self.path)
                return create
            if 0 < self.path.stat().st_size < _SMALLEST:
                raise explain("file is not a database", self.path)
        except OSError as error:
            raise _unusable(self.path, error.strerror or str(error)) from None
        return True

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        with self.explained(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction that holds the write lock from its first moment."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(twice_write=True)
            with connection.begin():
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Read a copy: a long read of the file itself would keep all writers waiting."""
        with tempfile.TemporaryDirectory(prefix="twice-ledger-") as folder:
            copy = Path(folder) / "ledger.db"
            try:
                self.copy_to(copy)
            except sqlite3.Error as error:
                raise LedgerError(
                    f"the ledger {self.place} cannot be copied to {folder} for a moment: {error}",
                    unchanged="the ledger is as it was",
                    next_step="free some space there, or set TMPDIR to a directory with space",
                ) from None
            with SqliteDatabase(copy).read() as connection:
                yield connection

    def clock(self) -> Clock:
        """One host, one clock."""
        return SystemClock()

    def software(self, connection: sa.Connection) -> str:
        return f"SQLite {connection.exec_driver_sql('SELECT sqlite_version()').scalar_one()}"

    def tables(self, connection: sa.Connection) -> set[str]:
        return set(sa.inspect(connection).get_table_names())

    def lock_for_migration(self, connection: sa.Connection) -> None:
        """Every write already holds the only lock."""

    def lock(self, connection: sa.Connection, *tables: sa.Table) -> None:
        """Every write already holds the only lock."""

    def continue_numbers(self, connection: sa.Connection, table: sa.Table) -> None:
        """SQLite does so by itself."""

    def tidy(self) -> None:
        """Leave write-ahead logging if it was turned on: the setting stays in the file."""
        with self.explained(), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            if driver.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
                driver.execute("PRAGMA journal_mode = DELETE").fetchone()

    def copy_to(self, file: Path) -> None:
        with self.explained(), self.engine.connect() as source:
            driver: Any = source.connection.driver_connection
            with contextlib.closing(sqlite3.connect(file)) as target:
                driver.backup(target)

    def explain(self, error: sa.exc.DBAPIError) -> LedgerError:
        return explain(str(error.orig), self.path)


def _prepare(connection: Any, _record: object) -> None:
    # pysqlite would begin and commit on its own; `_begin` decides when.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: sa.Connection) -> None:
    # A deferred transaction that turns into a writer fails at once, whatever the timeout is.
    write = connection.get_execution_options().get("twice_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _require_room(path: Path) -> None:
    """Refuse a place where no run could create the ledger: a missing file does not mean that nothing ran."""
    folder = next(above for above in path.parents if above.exists())
    if not folder.is_dir():
        raise _unusable(path, f"{folder} is not a directory")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(path, f"it does not exist, and {folder} is not writable")


def _unusable(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} cannot be opened: {why}",
        unchanged="nothing was changed",
        next_step=f"check {path.parent} and who may use it, or name another ledger in twice.toml",
    )
