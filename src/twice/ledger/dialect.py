"""What differs between databases: how to connect, begin, and insert without complaint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from twice.ledger.clock import Clock, SystemClock
from twice.ledger.problems import explain
from twice.ledger.redaction import redact

# How long a writer waits for its turn.
BUSY_SECONDS = 30.0


class Database:
    """One SQLite file, opened anew for every transaction, so that threads and forks share nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = redact(f"sqlite:///{path}")
        self.engine = sa.create_engine(
            sa.URL.create("sqlite+pysqlite", database=str(path)),
            poolclass=sa.pool.NullPool,
            connect_args={"timeout": BUSY_SECONDS},
        )
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "begin", _begin)

    def clock(self) -> Clock:
        """Return the clock that all users of this database share: one host, one clock."""
        return SystemClock()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One transaction that sees one state of the ledger."""
        with self.explained(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction that holds the write lock from its first moment."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(twice_write=True)
            with connection.begin():
                yield connection

    def use_rollback_journal(self) -> None:
        """Leave write-ahead logging if someone turned it on: the setting stays in the file."""
        with self.explained(), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            if driver.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
                driver.execute("PRAGMA journal_mode = DELETE").fetchone()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate the database's errors."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            # Without the cause's statement and parameters: they may hold what must not be shown.
            raise explain(str(error.orig), self.path) from None


def insert_missing(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows; those whose key is already there stay as they are."""
    if rows:
        connection.execute(sqlite.insert(table).on_conflict_do_nothing(), list(rows))


def _prepare(connection: Any, _record: object) -> None:
    # pysqlite would begin and commit when it sees fit; `_begin` says when.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: sa.Connection) -> None:
    # A deferred transaction that turns into a writer fails at once, whatever the timeout is.
    write = connection.get_execution_options().get("twice_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
