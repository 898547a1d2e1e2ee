"""The Delta store: the protocol's verbs, each in the module that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.filters import scope_filter
from twice.errors import StoreRefused
from twice.model.streams import STREAM_MARK
from twice.store import data_files
from twice.store.delta import history, jvm, publishing, shadows, staging, tables
from twice.store.delta.claims import Claims
from twice.store.delta.locations import Locations
from twice.store.delta.log_files import LogFiles
from twice.store.delta.staging import DeltaStagedRows
from twice.store.fingerprints import Fingerprints
from twice.store.protocol import Abilities
from twice.store.staged import OpenStagedRows, Publication

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.model.names import TableName
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.delta.settings import Settings
    from twice.store.protocol import StagedRows


class DeltaStore:
    """Delta tables below one folder, or of Spark's own catalog."""

    def __init__(self, settings: Settings) -> None:
        self.abilities = Abilities("delta", side_by_side=settings.side_by_side, offsets=True, counts_rows=True)
        self.locations = Locations(settings)
        self._is_local = settings.local
        self._listed: dict[tuple[str, str], tuple[int, Sequence[data_files.LiveFile] | None]] = {}
        self._fingerprints = Fingerprints()
        self._open_rows: OpenStagedRows[DeltaStagedRows] = OpenStagedRows()

    def exists(self, session: SparkSession, table: Table) -> bool:
        """Return whether the table exists."""
        return self.locations.log(session, table.id) is not None

    def token(self, session: SparkSession, table: Table) -> int:
        """Return the highest token that a scope of the table has seen, or that has a mark."""
        log = self.locations.log(session, table.id)
        if log is None:
            return 0
        seen = jvm.tokens(jvm.snapshot(session, log))
        return max([0, *seen.values(), *Claims(session, log).tokens()])

    def staged_tokens(self, session: SparkSession, table: Table) -> Sequence[int]:
        """List the tokens whose marks exist."""
        log = self.locations.log(session, table.id)
        return Claims(session, log).tokens() if log is not None else []

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Return the number of the version that made what readers see."""
        log = self.locations.log(session, table.id)
        if log is None:
            return None
        return str(history.current(session, log, int(jvm.snapshot(session, log).version())))

    def peek(self, table: Table) -> str | None:
        """Return the same as `version`, from the log on this machine's disk."""
        log = self._log_files(table)
        return log.content_version() if log is not None else None

    def peek_files(self, target: Target) -> Mapping[Scope, str] | None:
        """Fingerprint the files that checksums and commits list; what a version holds is read once."""
        table, zone = target.table, target.zone.key
        log = self._log_files(table)
        newest = log.newest() if log is not None else None
        if log is None or newest is None:
            return None
        known = self._listed.get((table.name, zone))
        if known is None or known[0] != newest:
            known = self._listed[table.name, zone] = (newest, log.files(newest, zone))
        return data_files.fingerprints(target, known[1]) if known[1] is not None else None

    def peek_seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the table's version, as `seen` does."""
        return self.peek(table)

    def peek_check(self, table: Table) -> bool | None:
        """Return whether the newest checksum shows what `check` asks for."""
        log = self._log_files(table)
        newest = log.newest() if log is not None else None
        return log.keeps(newest, table) if log is not None and newest is not None else None

    def remembered(self, session: SparkSession, table: Table, name: str) -> str | None:
        """Return a table property."""
        log = self.locations.log(session, table.id)
        if log is None:
            return None
        snapshot = jvm.snapshot(session, log)
        if name == STREAM_MARK:  # a transaction id: a property would make every batch a change of metadata
            return jvm.stream_mark(snapshot)
        return jvm.configuration(snapshot.metadata()).get(name)

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read the table as of a version; None reads nothing, with the table's columns."""
        name = self.locations.sql(table.id)
        if version is None:
            return session.table(name).where(F.lit(False))
        staged = self._open_rows.find(lambda each: each.listed(table, version))
        if staged is not None:
            return staging.base(session, staged)
        return session.read.option("versionAsOf", version).table(name)

    def follow(self, session: SparkSession, table: Table, options: Mapping[str, str]) -> DataFrame:
        """Read the rows that commits add."""
        path = self.locations.path(table.id)
        reader = session.readStream.format("delta").options(**options)
        return reader.load(path) if path is not None else reader.table(self.locations.sql(table.id))

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:
        """Fingerprint the data files of each partition."""
        if version is None:
            return dict.fromkeys(target.partitions, "")
        if (known := self._fingerprints.get(target, version)) is not None:
            return known
        log = self.locations.log(session, target.table.id)
        snapshot = jvm.snapshot_at(session, log, int(version)) if log is not None else None
        if snapshot is None:
            raise StoreRefused(
                f"{target.table.name} no longer has the version {version}: its log has been cleaned up",
                unchanged="nothing was changed",
                next_step="keep the log for longer: the table property delta.logRetentionDuration",
            )
        found = data_files.fingerprints(target, jvm.files_in(session, snapshot, target))
        self._fingerprints.put(target, version, found)
        return found

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the table's version: without partitions every new one may hold other rows of any window."""
        return self.version(session, table)

    def release(self, session: SparkSession) -> None:
        """Hold nothing: a version can be read without keeping it open."""

    def check(self, session: SparkSession, table: Table) -> None:
        """Refuse a live table that is not what the contract says."""
        tables.check(session, self.locations, table)

    def prepare(self, session: SparkSession, table: Table, schema: StructType) -> None:
        """Create the table; new columns are added by the publish that brings their first rows."""
        tables.prepare(session, self.locations, table, schema)

    def fence(self, session: SparkSession, table: Table, token: int, *, own: bool = False) -> str | None:  # noqa: ARG002
        """Raise the claim's transaction id; return the version that it had published before, if any."""
        log = self.locations.log(session, table.id)
        if log is None:
            return None
        mine = self._open_rows.end(table.name, token)
        if mine is not None and not mine.tried:
            # Only this process could publish it, and it has not begun to: no commit is needed.
            mine.ended = True
            Claims(session, log).drop(token)
            return None
        return publishing.fence(session, log, token)

    def open(self, session: SparkSession, target: Target, token: int) -> DeltaStagedRows:
        """Leave the claim's mark beside the table."""
        staged = staging.open_staging(session, self.locations, target, token)
        self._open_rows.add(staged)
        self._fingerprints.put(target, str(staged.base), data_files.fingerprints(target, staged.base_files))
        return staged

    def stage(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Write rows into the claim's folder."""
        staging.write(session, self.locations, _mine(staged), rows, first=True)

    def stage_more(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Write more rows into the claim's folder."""
        staging.write(session, self.locations, _mine(staged), rows, first=False)

    def stage_changes(
        self, session: SparkSession, staged: StagedRows, changes: DataFrame, *, insert_only: bool, instead_of: str = ""
    ) -> None:
        """Write what an upsert by key changes into the claim's folder."""
        staging.write_changes(
            session, self.locations, _mine(staged), changes, insert_only=insert_only, instead_of=instead_of
        )

    def staged(self, session: SparkSession, staged: StagedRows) -> DataFrame:
        """Read the scope as it would be after the publish."""
        return staging.staged(session, _mine(staged))

    def staged_files(self, session: SparkSession, staged: StagedRows) -> Mapping[Scope, str]:  # noqa: ARG002
        """Fingerprint the files of each partition as they would be after the publish."""
        return _mine(staged).fingerprints()

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
        """Make the staged files of these partitions the table's, in one commit."""
        version = publishing.publish(session, Publication(_mine(staged), partitions, notes, remember))
        self._open_rows.end(staged.target.table.name, staged.token)
        return version

    def discard(self, session: SparkSession, staged: StagedRows, remember: Mapping[str, str]) -> None:
        """Drop the files of staged rows that change nothing; they must still be ours to drop."""
        publishing.drop(session, _mine(staged), remember)
        self._open_rows.end(staged.target.table.name, staged.token)

    def shadow(self, name: TableName, mark: str) -> TableName:
        """Name the shadow: a table of its own beside the first."""
        return name.beside(mark)

    def fork(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Clone the table without copying its files."""
        shadows.fork(session, self.locations, table.id, shadow.id)

    def adopt(self, session: SparkSession, staged: StagedRows, shadow: Table) -> None:
        """Stage the shadow's rows of the scope."""
        rows = self.read(session, shadow, self.version(session, shadow)).where(scope_filter(staged.target))
        self.stage(session, staged, rows)

    def shadow_schema(self, session: SparkSession, target: Target) -> StructType:
        """Return the columns of the shadow's table."""
        return self.read(session, target.table, self.version(session, target.table)).schema

    def drop_shadow(self, session: SparkSession, table: Table, shadow: Table) -> bool:  # noqa: ARG002
        """Drop the shadow's table with its files."""
        shadows.drop(session, self.locations, shadow.id)
        return False

    def undo_shadow(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Undo nothing: a shadow changes nothing of the table itself."""

    def _log_files(self, table: Table) -> LogFiles | None:
        path = self.locations.path(table.id)
        return LogFiles.of(path) if path is not None and self._is_local else None


def _mine(staged: StagedRows) -> DeltaStagedRows:
    assert isinstance(staged, DeltaStagedRows)  # noqa: S101 - staged rows come from the store that opened them
    return staged
