"""The SQL store: the protocol's verbs, each in the module that does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa

from twice.content.filters import scope_filter
from twice.errors import Conflict
from twice.store.protocol import Abilities
from twice.store.sql.read import fingerprints, reading
from twice.store.sql.schema import bookkeeping, checks, tables
from twice.store.sql.schema.types import read_schema, restored
from twice.store.sql.write import publishing, shadows, staging
from twice.store.sql.write.staging import SqlStagedRows
from twice.store.staged import OpenStagedRows, Publication

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.model.names import TableName
    from twice.model.scopes import Scope
    from twice.model.tables import Cut, Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.protocol import StagedRows
    from twice.store.sql.database import Database


class SqlStore:
    """Tables of one SQL database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        # A snapshot that all readers of an attempt share is something that only Postgres offers.
        postgres = database.dialect == "postgres"
        self.abilities = Abilities("sql", pins=postgres, history=False, outbox=postgres)
        self._open_rows: OpenStagedRows[SqlStagedRows] = OpenStagedRows()

    def exists(self, session: SparkSession, table: Table) -> bool:  # noqa: ARG002 - the driver asks itself
        """Return whether the table exists."""
        return self._is_there(table)

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Return the number of publishes; for a table that twice does not write, what its rows look like."""
        return self._version(table, session)

    def peek(self, table: Table) -> str | None:
        """Return the same as `version`."""
        with self._rested():
            return self._version(table, None)

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read the table as it is, which must be the version; None reads nothing, with the table's columns."""
        base = self._base(session, table, version)
        return self._restored(table, reading.read(self.database, session, table, version, base=base))

    def read_cut(
        self,
        session: SparkSession,
        table: Table,
        version: str | None,
        cut: Cut,
        dimensions: Mapping[str, str],
        zone: ZoneInfo,
    ) -> DataFrame:
        """Read the rows in the cut: only they are queried from the database."""
        rows = reading.read(self.database, session, table, version, reading.Within(cut, dimensions, zone))
        return self._restored(table, rows)

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:
        """Name the token that wrote each partition, or what is there instead."""
        return self._files(target, version, session)

    def peek_files(self, target: Target) -> Mapping[Scope, str] | None:
        """Return the same as `files`."""
        with self._rested():
            version = self._version(target.table, None)
            return self._files(target, version, None) if version is not None else None

    def _files(self, target: Target, version: str | None, session: SparkSession | None) -> Mapping[Scope, str]:
        if version is None:
            return dict.fromkeys(target.partitions, "")
        staged = self._open_rows.find(
            lambda each: (
                each.target.table.name == target.table.name
                and version == each.base
                and set(each.target.partitions) == set(target.partitions)
            )
        )
        if staged is not None:
            return staged.base_files
        with self.database.look() as connection:
            entry = self._entry(connection, target.table)
            if entry is None:
                return reading.files(self.database, target, session)
            if str(entry.version) != version:
                raise Conflict(
                    f"{target.table.name} no longer has the version {version}: a SQL database keeps only the last one",
                    unchanged="nothing was changed",
                    next_step="run it again: the new attempt looks at what is there now",
                )
            live = self.database.table(target.table.id, self.database.columns(connection, target.table.id))
            now = fingerprints.live(connection, self.database, live, target, target.partitions)
            known = bookkeeping.known_partitions(
                connection, bookkeeping.tables_of(self.database, target.table.id), target
            )
        return staging.files_of(target, now, known)

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Fingerprint what a table without partitions holds of a window, by event time."""
        return reading.seen(self.database, table, event, zone, session)

    def peek_seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Return the same as `seen`."""
        with self._rested():
            return reading.seen(self.database, table, event, zone, None) if self._is_there(table) else None

    def peek_check(self, table: Table) -> bool | None:
        """Refuse the same as `check`."""
        with self._rested():
            checks.check(self.database, table)
        return True

    def release(self, session: SparkSession) -> None:
        """Release the snapshots that reads held open, and the connection."""
        reading.release(session)
        self.database.rest()

    def token(self, session: SparkSession, table: Table) -> int:  # noqa: ARG002
        """Return the highest token in the bookkeeping tables or among leftover staging tables."""
        with self.database.look() as connection:
            entry = self._entry(connection, table)
            left = bookkeeping.stage_tokens(connection, table.id, self.database.schema(table.id))
            if entry is not None:
                found = bookkeeping.tables_of(self.database, table.id)
                left = [*left, entry.token, bookkeeping.highest_token(connection, found, table.id)]
        return max([0, *left])

    def staged_tokens(self, session: SparkSession, table: Table) -> Sequence[int]:  # noqa: ARG002
        """List the tokens that have an open claim or a staging table."""
        found = bookkeeping.tables_of(self.database, table.id)
        with self.database.look() as connection:
            left = bookkeeping.stage_tokens(connection, table.id, self.database.schema(table.id))
            at_work = (
                bookkeeping.open_tokens(connection, found, table.id) if bookkeeping.exist(connection, found) else []
            )
        return sorted({*left, *at_work})

    def remembered(self, session: SparkSession, table: Table, name: str) -> str | None:  # noqa: ARG002
        """Return what a publish left with the table."""
        with self.database.look() as connection:
            entry = self._entry(connection, table)
        return entry.properties.get(name) if entry is not None else None

    def check(self, session: SparkSession, table: Table) -> None:  # noqa: ARG002
        """Refuse a live table, or a schema, that a run could not write."""
        checks.check(self.database, table)

    def prepare(self, session: SparkSession, table: Table, schema: StructType) -> None:  # noqa: ARG002
        """Create the table, or add new columns."""
        tables.prepare(self.database, table, schema)

    def fence(self, session: SparkSession, table: Table, token: int, *, own: bool = False) -> str | None:  # noqa: ARG002
        """Stop a token for good; return the version that it published, if it already had."""
        self._open_rows.end(table.name, token)
        return publishing.fence(self.database, table.id, token, own=own)

    def open(self, session: SparkSession, target: Target, token: int) -> SqlStagedRows:
        """Open the claim and create its staging table."""
        staged = staging.open_staging(self.database, target, token)
        staged.session = session
        self._open_rows.add(staged)
        return staged

    def stage(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Write rows into the staging table."""
        staging.write(self.database, session, _mine(staged), rows, first=True)

    def stage_more(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Write more rows into the staging table."""
        staging.write(self.database, session, _mine(staged), rows, first=False)

    def stage_changes(
        self, session: SparkSession, staged: StagedRows, changes: DataFrame, *, insert_only: bool, instead_of: str = ""
    ) -> None:
        """Write the rows that change the table into the staging table."""
        _mine(staged).instead_of = instead_of
        staging.write_changes(self.database, session, _mine(staged), changes, insert_only=insert_only)

    def staged(self, session: SparkSession, staged: StagedRows) -> DataFrame:
        """Return the scope as it would be after the publish."""
        mine = _mine(staged)
        before = None if mine.replaces else self.read(session, mine.target.table, mine.base)
        return staging.staged(mine, before)

    def staged_files(self, session: SparkSession, staged: StagedRows) -> Mapping[Scope, str]:  # noqa: ARG002
        """Name the claim in each partition that would hold rows after the publish."""
        return _mine(staged).files()

    def stray_rows(self, session: SparkSession, staged: StagedRows, limit: int) -> list[Mapping[str, object]]:  # noqa: ARG002
        """Return a few of the staged rows that lie outside the scope."""
        return staging.stray_rows(_mine(staged), limit)

    def publish(
        self,
        session: SparkSession,  # noqa: ARG002
        staged: StagedRows,
        partitions: Sequence[Scope],
        notes: Mapping[str, str],
        remember: Mapping[str, str],
    ) -> str:
        """Replace or merge the staged partitions, in one transaction."""
        version = publishing.publish(self.database, Publication(_mine(staged), partitions, notes, remember))
        self._open_rows.end(staged.target.table.name, staged.token)
        return version

    def discard(self, session: SparkSession, staged: StagedRows, remember: Mapping[str, str]) -> None:  # noqa: ARG002
        """Drop staged rows that change nothing; they must still be ours to drop."""
        publishing.discard(self.database, _mine(staged), remember)
        self._open_rows.end(staged.target.table.name, staged.token)

    def shadow(self, name: TableName, mark: str) -> TableName:
        """Name the shadow: a table of its own in the same schema."""
        return name.beside(mark)

    def fork(self, session: SparkSession, table: Table, shadow: Table) -> None:  # noqa: ARG002
        """Copy the table, in one transaction of the database."""
        shadows.fork(self.database, table, shadow)

    def adopt(self, session: SparkSession, staged: StagedRows, shadow: Table) -> None:
        """Stage the shadow's rows of the scope."""
        rows = self.read(session, shadow, self.version(session, shadow)).where(scope_filter(staged.target))
        self.stage(session, staged, rows)

    def shadow_schema(self, session: SparkSession, target: Target) -> StructType:
        """Return the columns of the shadow's table."""
        return self.read(session, target.table, self.version(session, target.table)).schema

    def drop_shadow(self, session: SparkSession, table: Table, shadow: Table) -> bool:  # noqa: ARG002
        """Drop the shadow's table, its staging tables and its lines in the bookkeeping tables."""
        shadows.drop(self.database, shadow.id)
        return False

    def undo_shadow(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Undo nothing: a shadow changes nothing of the table itself."""

    def create_namespace(self, name: str) -> None:
        """Create a schema of the database."""
        with self.database.change() as connection:
            connection.execute(sa.schema.CreateSchema(name, if_not_exists=True))

    def drop_namespace(self, name: str) -> None:
        """Drop a schema with its tables."""
        with self.database.change() as connection:
            connection.execute(sa.schema.DropSchema(name, cascade=True, if_exists=True))

    def _base(self, session: SparkSession, table: Table, version: str | None) -> reading.Base | None:
        """Return what the session's own staged rows of the table started from, if that is what is to be read."""
        staged = self._open_rows.find(
            lambda each: each.target.table.name == table.name and each.base == version and each.session is session
        )
        return reading.Base(staged.target, staged.fingerprints) if staged is not None else None

    @contextmanager
    def _rested(self) -> Iterator[None]:
        """Keep no connection once the block ends: no attempt would release it."""
        try:
            yield
        finally:
            self.database.rest()

    def _is_there(self, table: Table) -> bool:
        with self.database.look() as connection:
            return bool(self.database.columns(connection, table.id))

    def _version(self, table: Table, session: SparkSession | None) -> str | None:
        with self.database.look() as connection:
            if not self.database.columns(connection, table.id):
                return None
            entry = self._entry(connection, table)
        return str(entry.version) if entry is not None else reading.version(self.database, table, session)

    def _restored(self, table: Table, rows: DataFrame) -> DataFrame:
        with self.database.look() as connection:
            entry = self._entry(connection, table)
        return restored(rows, read_schema(entry.columns)) if entry is not None and entry.columns else rows

    def _entry(self, connection: sa.Connection, table: Table) -> bookkeeping.Entry | None:
        found = bookkeeping.tables_of(self.database, table.id)
        return bookkeeping.read_entry(connection, found, table.id) if bookkeeping.exist(connection, found) else None


def _mine(staged: StagedRows) -> SqlStagedRows:
    assert isinstance(staged, SqlStagedRows)  # noqa: S101 - staged rows come from the store that opened them
    return staged
