"""What every database of a ledger offers; `sqlite` and `postgres` implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from twice.errors import LedgerError
from twice.ledger.db.clock import Clock

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

# How long a writer waits for its turn.
BUSY_SECONDS = 30.0


class Database(ABC):
    """One database that holds one ledger; threads and forks share no connection."""

    # The database as a URL, without its password.
    shown: str
    # The same, as it reads best in a message.
    place: str
    # What a ledger shares with nothing else, and how to give it one, for messages.
    own: str
    engine: sa.Engine

    @abstractmethod
    def look(self, *, create: bool) -> bool:
        """Return whether there may be a ledger; make the place for one if asked to."""

    @abstractmethod
    def read(self) -> AbstractContextManager[sa.Connection]:
        """One transaction that sees one state of the ledger."""

    @abstractmethod
    def write(self) -> AbstractContextManager[sa.Connection]:
        """One transaction that may change the ledger."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[sa.Connection]:
        """One state of the ledger for a long read, while other processes can write."""

    @abstractmethod
    def clock(self) -> Clock:
        """Return the clock that all users of this database share."""

    @abstractmethod
    def software(self, connection: sa.Connection) -> str:
        """Return the database's name and version."""

    @abstractmethod
    def tables(self, connection: sa.Connection) -> set[str]:
        """Return the names of the tables that are in the place of a ledger."""

    @abstractmethod
    def lock_for_migration(self, connection: sa.Connection) -> None:
        """Let one process at a time create or change the tables, until the transaction ends."""

    @abstractmethod
    def lock(self, connection: sa.Connection, *tables: sa.Table) -> None:
        """Keep other writers out of whole tables until the transaction ends."""

    @abstractmethod
    def continue_numbers(self, connection: sa.Connection, table: sa.Table) -> None:
        """Number new rows above those that were inserted with their numbers."""

    @abstractmethod
    def explain(self, error: sa.exc.DBAPIError) -> LedgerError:
        """Return our error for an error of the database."""

    @abstractmethod
    def tidy(self) -> None:
        """Set what must stay set in an open ledger."""

    def copy_to(self, file: Path) -> None:
        """Write a copy of the whole database to a file."""
        raise LedgerError(
            f"{self.shown} is not a file, so it cannot be copied to {file}",
            unchanged="nothing was written",
            next_step="back a Postgres ledger up with pg_dump, or write it to a file with `twice ledger export`",
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate the database's errors."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            # Without the cause's statement and parameters: they may hold what must not be shown.
            raise self.explain(error) from None


def insert_missing(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows, in their order; those whose key is already there stay as they are."""
    if rows:
        connection.execute(_insert(connection, table), list(rows))


def insert_new(connection: sa.Connection, table: sa.Table, row: Mapping[str, object]) -> bool:
    """Insert a row unless its key exists; return whether it was new."""
    first = next(iter(table.primary_key.columns))
    # Not the number of rows that the driver reports: with ON CONFLICT it is not reliable.
    return connection.execute(_insert(connection, table).returning(first), row).first() is not None


def _insert(connection: sa.Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # a tenth of a short command's time, of no use to SQLite

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
