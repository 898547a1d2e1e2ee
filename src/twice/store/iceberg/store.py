"""The Iceberg store: the protocol's verbs, each in the module that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.filters import scope_filter
from twice.errors import StoreRefused
from twice.store import data_files
from twice.store.fingerprints import Fingerprints
from twice.store.iceberg import discarding, grouping, jvm, maintenance, publishing, shadows, staging, tables
from twice.store.iceberg.branches import Line
from twice.store.iceberg.listing import FileInfo
from twice.store.iceberg.metadata import Metadata, NotReadable
from twice.store.iceberg.staging import IcebergStagedRows
from twice.store.protocol import Abilities
from twice.store.staged import Publication

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.model.names import TableName
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.iceberg.catalog import CatalogDatabase
    from twice.store.protocol import StagedRows


class IcebergStore:
    """Tables of one Iceberg catalog."""

    abilities = Abilities("iceberg", offsets=True, counts_rows=True)

    def __init__(self, catalog: CatalogDatabase | None = None) -> None:
        self._catalog = catalog
        self._fingerprints = Fingerprints()
        self._read: dict[str, Metadata] = {}

    def exists(self, session: SparkSession, table: Table) -> bool:
        """Return whether the table exists."""
        return jvm.load(session, table.id) is not None

    def token(self, session: SparkSession, table: Table) -> int:
        """Return the highest token in the table's properties or among its leftover branches."""
        live = jvm.load(session, table.id)
        return Line.of(table.id).token(live) if live is not None else 0

    def staged_tokens(self, session: SparkSession, table: Table) -> Sequence[int]:
        """List the tokens whose branches are there."""
        live = jvm.load(session, table.id)
        return Line.of(table.id).branch_tokens(live) if live is not None else []

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Return the id of the newest snapshot."""
        live = jvm.load(session, table.id)
        current = Line.of(table.id).head(live) if live is not None else None
        return str(current.snapshotId()) if current is not None else None

    def remembered(self, session: SparkSession, table: Table, name: str) -> str | None:
        """Return a table property."""
        live = jvm.load(session, table.id)
        return Line.of(table.id).remembered(live, name) if live is not None else None

    def peek(self, table: Table) -> str | None:
        """Return the id of the newest snapshot, from the catalog's database and the metadata file that it names."""
        found = self._metadata(table)
        return str(found.current) if found is not None and found.current is not None else None

    def peek_files(self, target: Target) -> Mapping[Scope, str] | None:
        """Fingerprint the data files that the manifests list."""
        found = self._metadata(target.table)
        try:
            return data_files.fingerprints(target, found.files) if found else None
        except NotReadable:
            return None

    def peek_seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the table's version, as `seen` does."""
        return self.peek(table)

    def peek_check(self, table: Table) -> bool | None:
        """Return whether the metadata file shows what `check` asks for."""
        found = self._metadata(table)
        try:
            return found is not None and found.keeps(table)
        except NotReadable:
            return None

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read the table as of a snapshot; None reads nothing, with the table's columns."""
        if version is None:
            return session.table(table.id.sql).where(F.lit(False))
        return session.read.option("versionAsOf", version).table(table.id.sql)

    def follow(self, session: SparkSession, table: Table, options: Mapping[str, str]) -> DataFrame:
        """Read the rows that append snapshots add."""
        return session.readStream.options(**options).table(table.id.sql)

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:
        """Fingerprint the data files of each partition."""
        if version is not None and (known := self._fingerprints.get(target, version)) is not None:
            return known
        files: list[FileInfo] = []
        live = jvm.load(session, target.table.id)
        if live is not None and version is not None:
            if live.snapshot(int(version)) is None:
                raise StoreRefused(
                    f"{target.table.name} no longer has the version {version}: its snapshot has expired",
                    unchanged="nothing was changed",
                    next_step="keep snapshots for longer: twice maintain --keep",
                )
            files = jvm.files_in(session, live, int(version), jvm.scope_expression(session, target))
        found = data_files.fingerprints(target, files)
        if version is not None:
            self._fingerprints.put(target, version, found)
        return found

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the table's version: without partitions every new one may hold other rows of any window."""
        return self.version(session, table)

    def grouped(self, session: SparkSession) -> AbstractContextManager[None]:
        """Read whole partitions per task within the block."""
        return grouping.grouped(session)

    def release(self, session: SparkSession) -> None:
        """Hold nothing: a snapshot can be read without keeping it open."""

    def check(self, session: SparkSession, table: Table) -> None:
        """Refuse a live table that does not match the contract."""
        tables.check(session, table)

    def prepare(self, session: SparkSession, table: Table, schema: StructType) -> None:
        """Create the table, or add new columns."""
        tables.prepare(session, table, schema)

    def fence(self, session: SparkSession, table: Table, token: int, *, own: bool = False) -> str | None:
        """Drop a claim's branch and what it staged; return the version that it had published before, if any."""

        def attempt() -> str | None:
            live = jvm.load(session, table.id)
            if live is None:
                return None
            line = Line.of(table.id)
            landed = line.find_token(live, token)
            if landed is None and line.branch_of(token) in live.refs():
                discarding.drop_branch(session, live, line, token, files=self._catalog is not None)
            return landed

        landed = jvm.retried(attempt)
        if landed is None and own:
            tables.drop_unpublished(session, self._catalog, table)
        return landed

    def open(self, session: SparkSession, target: Target, token: int) -> IcebergStagedRows:
        """Create the branch that both holds the staged rows and is the fence."""
        return staging.open_staging(session, target, token)

    def stage(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Replace the scope on the branch."""
        self._write(session, staged, rows, first=True)

    def stage_more(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Append rows to the branch."""
        self._write(session, staged, rows, first=False)

    def _metadata(self, table: Table) -> Metadata | None:
        """Return the newest metadata file's content; one that was read before has not changed."""
        place = self._catalog.location(table.id) if self._catalog is not None and not table.id.shadow else None
        if place is None:
            return None
        known = self._read.get(table.name)
        if known is None or known.location != place:
            try:
                known = self._read[table.name] = Metadata.read(place)
            except NotReadable:
                return None
        return known

    def _write(self, session: SparkSession, staged: StagedRows, rows: DataFrame, *, first: bool) -> None:
        mine = _mine(staged)
        staging.write(session, mine, rows, first=first)
        if mine.head is not None:  # the whole scope was replaced: what was added is all that is there
            self._fingerprints.put(mine.target, mine.head, mine.fingerprints())

    def stage_changes(
        self, session: SparkSession, staged: StagedRows, changes: DataFrame, *, insert_only: bool, instead_of: str = ""
    ) -> None:
        """Upsert rows on the branch by key."""
        staging.write_changes(session, _mine(staged), changes, insert_only=insert_only, instead_of=instead_of)

    def staged(self, session: SparkSession, staged: StagedRows) -> DataFrame:
        """Read the scope from the branch."""
        return session.table(_mine(staged).branch).where(scope_filter(staged.target))

    def staged_files(self, session: SparkSession, staged: StagedRows) -> Mapping[Scope, str]:
        """Fingerprint the data files of each partition on the branch."""
        return self.files(session, staged.target, _mine(staged).head)

    def stray_rows(self, session: SparkSession, staged: StagedRows, limit: int) -> list[Mapping[str, object]]:
        """Read a few staged rows that lie outside the scope."""
        return staging.stray_rows(session, _mine(staged), limit)

    def publish(
        self,
        session: SparkSession,
        staged: StagedRows,
        partitions: Sequence[Scope],
        notes: Mapping[str, str],
        remember: Mapping[str, str],
    ) -> str:
        """Move the staged files of these partitions to main, in one commit."""
        version = publishing.publish(session, Publication(_mine(staged), partitions, notes, remember))
        if _mine(staged).replaces and set(partitions) == set(staged.target.partitions):
            self._fingerprints.put(staged.target, version, _mine(staged).fingerprints())
        return version

    def discard(self, session: SparkSession, staged: StagedRows, remember: Mapping[str, str]) -> None:
        """Drop the branch of staged rows that change nothing; it must still be ours to drop."""
        publishing.drop(session, _mine(staged), remember)

    def compact(self, session: SparkSession, table: Table) -> int:
        """Rewrite small files into large ones."""
        return maintenance.compact(session, table)

    def count_versions(self, session: SparkSession, table: Table) -> int:
        """Count the snapshots."""
        return maintenance.snapshots(session, table)

    def version_read(self, offsets: str) -> str | None:
        """Return the snapshot that a stream's offsets name."""
        return maintenance.version_read(offsets)

    def committed_at(self, session: SparkSession, table: Table, version: str) -> datetime | None:
        """Return when a snapshot was committed."""
        return maintenance.committed_at(session, table, version)

    def expire(self, session: SparkSession, table: Table, older_than: datetime) -> int:
        """Expire old snapshots."""
        return maintenance.expire(session, table, older_than)

    def remove_orphans(self, session: SparkSession, table: Table, now: datetime) -> int:
        """Remove files below the table's folder that no snapshot refers to."""
        return maintenance.remove_orphans(session, table, now)

    def shadow(self, name: TableName, mark: str) -> TableName:
        """Name the shadow: a branch of the same table."""
        return replace(name, shadow=mark)

    def fork(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Branch off what readers see now."""
        shadows.fork(session, table, shadow)

    def adopt(self, session: SparkSession, staged: StagedRows, shadow: Table) -> None:
        """Put the shadow's files on the claim's branch."""
        mine = _mine(staged)
        shadows.adopt(session, mine, shadow)
        if mine.head is not None:
            self._fingerprints.drop(mine.target, mine.head)

    def shadow_schema(self, session: SparkSession, target: Target) -> StructType:
        """Return the columns that a shadow brings."""
        return shadows.schema(session, target)

    def drop_shadow(self, session: SparkSession, table: Table, shadow: Table) -> bool:
        """Remove the branch, and the files that only it held."""
        return shadows.drop(session, table, shadow)

    def undo_shadow(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Remove the table or the columns that were added for a shadow."""
        shadows.undo(session, table, shadow)


def _mine(staged: StagedRows) -> IcebergStagedRows:
    assert isinstance(staged, IcebergStagedRows)  # noqa: S101 - staged rows come from the store that opened them
    return staged
