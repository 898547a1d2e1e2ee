"""One consistent view of Postgres for all reads of an attempt.

A connection of the driver opens a transaction, exports its snapshot, and stays open; every connection of Spark's
adopts the snapshot before it reads. So two tasks, two tables and a repeated read all see the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.store.sql.database import Database


@dataclass(frozen=True)
class Snapshot:
    """A moment of one database, kept by an open transaction."""

    id: str
    database: Database
    connection: sa.Connection

    @property
    def adopt(self) -> str:
        """The statement by which another transaction sees the same moment; it must be its first."""
        return f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{self.id}'"

    @contextmanager
    def look(self) -> Iterator[sa.Connection]:
        """Query at the snapshot; the locks of the queries are released with their savepoint."""
        with self.database.explained():
            savepoint = self.connection.begin_nested()
            try:
                yield self.connection
            finally:
                savepoint.rollback()


class Snapshots:
    """The snapshots that the sessions of this process hold."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[SparkSession, list[Snapshot]]] = {}

    def find(
        self, database: Database, session: SparkSession, wanted: Callable[[Snapshot], bool] = lambda _: True
    ) -> Snapshot | None:
        """Return a moment that the session holds, or a new one; None if what is wanted is gone."""
        _, held = self._held.setdefault(id(session), (session, []))
        for snapshot in held:
            if snapshot.database is database and wanted(snapshot):
                return snapshot
        snapshot = _export(database)
        held.append(snapshot)
        return snapshot if wanted(snapshot) else None

    def release(self, session: SparkSession) -> None:
        """End the transactions that a session's snapshots live in."""
        for snapshot in self._held.pop(id(session), (session, []))[1]:
            with suppress(sa.exc.DBAPIError):  # a connection that is gone holds nothing
                snapshot.connection.close()


def _export(database: Database) -> Snapshot:
    with database.explained():
        connection = database.engine.connect()
        try:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            # The transaction is idle by design while Spark reads.
            connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            exported = connection.execute(sa.text("SELECT pg_export_snapshot()")).scalar_one()
            return Snapshot(exported, database, connection)
        except BaseException:
            connection.close()
            raise
