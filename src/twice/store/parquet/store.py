"""The Parquet store: the protocol's verbs, each in the module that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from twice.content.filters import scope_filter
from twice.errors import Conflict, StoreRefused
from twice.model.patterns import Overwrite, Whole
from twice.store.file_system import LocalFiles
from twice.store.fingerprints import Fingerprints
from twice.store.hadoop import HadoopFiles
from twice.store.parquet import listing, publishing, staging, swap, tables
from twice.store.parquet.folder import Folder
from twice.store.parquet.publishing import ParquetStagedRows
from twice.store.parquet.settings import is_local, root_of
from twice.store.protocol import Abilities
from twice.store.staged import OpenStagedRows

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.config import StoreConfig
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.protocol import StagedRows

_TRIES = 5


class ParquetStore:
    """Tables in Hive-style folders below one folder."""

    abilities = Abilities(
        "parquet",
        writes=(Overwrite, Whole),
        pins=False,
        history=False,
        instead='keep the table in an Iceberg store (type = "iceberg"), which can do it in one commit',
    )

    def __init__(self, store: StoreConfig, root: Path) -> None:
        self._root = root_of(store, root)
        self._known: dict[str, int] = {}
        # What scopes held when staging was opened.
        self._bases = Fingerprints()
        self._open_rows: OpenStagedRows[ParquetStagedRows] = OpenStagedRows()

    def exists(self, session: SparkSession, table: Table) -> bool:
        """Return whether the table exists."""
        folder = self._folder(session, table)
        head = swap.settle(folder)
        return (head is not None and not folder.is_gone(head)) or folder.has_data()

    def token(self, session: SparkSession, table: Table) -> int:
        """Return the highest token in the log or among the leftover staging folders."""
        folder = self._folder(session, table)
        head = folder.log.head()
        return max([head.token if head is not None else 0, *folder.tokens()])

    def staged_tokens(self, session: SparkSession, table: Table) -> Sequence[int]:
        """List the tokens whose folders exist."""
        return self._folder(session, table).tokens()

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Return the number of publishes; a folder that twice has not written yet is named by its files."""
        return self._version(self._folder(session, table))

    def peek(self, table: Table) -> str | None:
        """Return the same as `version`, on a disk of this machine."""
        return self._version(self._on_disk(table)) if is_local(self._root) else None

    def peek_files(self, target: Target) -> Mapping[Scope, str] | None:
        """Return the same as `files`, on a disk of this machine."""
        if not is_local(self._root) or self.peek(target.table) is None:
            return None
        folder = self._on_disk(target.table)
        return self._listed(folder, folder.data, target)

    def peek_seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the table's version, as `seen` does."""
        return self.peek(table)

    def peek_check(self, table: Table) -> bool | None:
        """Refuse the same as `check`, on a disk of this machine."""
        return self._checked(self._on_disk(table)) if is_local(self._root) else None

    def remembered(self, session: SparkSession, table: Table, name: str) -> str | None:
        """Return what the log remembers."""
        head = self._folder(session, table).log.head()
        return head.properties.get(name) if head is not None else None

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read the table's files as they are listed now: all of one version."""
        folder = self._folder(session, table)
        for _ in range(_TRIES):
            head = swap.settle(folder)
            if head is not None and folder.is_gone(head):
                head = None
            if head is None and not folder.has_data():
                raise StoreRefused(f"{table.name} does not exist", unchanged="nothing was changed")
            now = self._version(folder)
            if version is not None and version != now and not self._bases.has(table, version):
                raise self._moved(table, version, now)
            schema = tables.stored(head.schema) if head is not None else tables.adopted(session, folder)
            if version is None or not folder.files.exists(folder.data):
                return session.createDataFrame([], schema)
            try:
                found = staging.frame(session, schema, folder.data)
            except AnalysisException:
                if self._version(folder) == now and folder.files.exists(folder.data):
                    raise
                continue
            if self._version(folder) == now:
                return found
        raise self._moved(table, version, "ever new versions")

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:
        """Fingerprint the files of each partition, as they are listed now or were when staging began."""
        folder = self._folder(session, target.table)
        if version is None:
            return dict.fromkeys(target.partitions, "")
        now = self._version(folder)
        if version == now:
            return self._listed(folder, folder.data, target)
        known = self._bases.get(target, version)
        if known is None:
            raise self._moved(target.table, version, now)
        return known

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the table's version: without partitions every new one may hold other rows of any window."""
        return self.version(session, table)

    def release(self, session: SparkSession) -> None:
        """Hold nothing: a folder cannot be kept as it is."""

    def check(self, session: SparkSession, table: Table) -> None:
        """Refuse a live table that is not what the contract says."""
        self._checked(self._folder(session, table))

    def prepare(self, session: SparkSession, table: Table, schema: StructType) -> None:
        """Create the table, or check that only columns are added; the publish adds them."""
        tables.prepare(session, self._folder(session, table), schema)

    def fence(self, session: SparkSession, table: Table, token: int, *, own: bool = False) -> str | None:
        """End a claim for good; return the version that it had published before, if any."""
        mine = self._open_rows.end(table.name, token)
        untried = mine is None or not mine.tried
        return publishing.fence(self._folder(session, table), token, own=own, untried=untried)

    def open(self, session: SparkSession, target: Target, token: int) -> ParquetStagedRows:
        """Make the claim's folder."""
        staged = publishing.open_staging(self._folder(session, target.table), target, token)
        if staged.base is not None:
            self._bases.put(target, staged.base, staged.base_files)
        self._open_rows.add(staged)
        return staged

    def stage(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Write rows into the claim's folder."""
        staging.write(session, self._folder(session, staged.target.table), _mine(staged), rows, first=True)

    def stage_more(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Write more rows into the claim's folder."""
        staging.write(session, self._folder(session, staged.target.table), _mine(staged), rows, first=False)

    def stage_changes(
        self,
        session: SparkSession,  # noqa: ARG002
        staged: StagedRows,
        changes: DataFrame,  # noqa: ARG002
        *,
        insert_only: bool,  # noqa: ARG002
        instead_of: str = "",  # noqa: ARG002
    ) -> None:
        """Refuse: files cannot be changed row by row."""
        self.abilities.require(staged.target.table)
        raise AssertionError("a table that may be written is replaced by scope")

    def staged(self, session: SparkSession, staged: StagedRows) -> DataFrame:
        """Read the scope from the claim's folder."""
        found = staging.staged(session, self._folder(session, staged.target.table), _mine(staged))
        return found.where(scope_filter(staged.target))

    def staged_files(self, session: SparkSession, staged: StagedRows) -> Mapping[Scope, str]:
        """Fingerprint the files in the claim's folder, which take the place of those that are there."""
        folder = self._folder(session, staged.target.table)
        return self._listed(folder, folder.rows(staged.token), staged.target)

    def stray_rows(self, session: SparkSession, staged: StagedRows, limit: int) -> list[Mapping[str, object]]:
        """Read a few staged rows that lie outside the scope."""
        return staging.stray_rows(session, self._folder(session, staged.target.table), _mine(staged), limit)

    def publish(
        self,
        session: SparkSession,
        staged: StagedRows,
        partitions: Sequence[Scope],
        notes: Mapping[str, str],
        remember: Mapping[str, str],
    ) -> str:
        """Decide in the log, then move the folders of these partitions."""
        folder = self._folder(session, staged.target.table)
        version = publishing.publish(folder, _mine(staged), partitions, notes, remember)
        self._open_rows.end(staged.target.table.name, staged.token)
        return version

    def discard(self, session: SparkSession, staged: StagedRows, remember: Mapping[str, str]) -> None:
        """Drop the folder of staged rows that change nothing; it must still be ours to drop."""
        publishing.discard(self._folder(session, staged.target.table), _mine(staged), remember)
        self._open_rows.end(staged.target.table.name, staged.token)

    def _folder(self, session: SparkSession, table: Table) -> Folder:
        if is_local(self._root):
            folder = self._on_disk(table)
            staging.require_unicode(session, folder.data)
            return folder
        return Folder.of(table, HadoopFiles(session, self._root), self._root, self._known)

    def _on_disk(self, table: Table) -> Folder:
        return Folder.of(table, LocalFiles(), self._root, self._known)

    def _checked(self, folder: Folder) -> bool:
        swap.settle(folder)
        tables.check(folder)
        return True

    def _version(self, folder: Folder) -> str | None:
        head = swap.settle(folder)
        if head is not None and not folder.is_gone(head):
            return publishing.version_of(head)
        found = listing.everything(folder.files, folder.data)
        return f"files-{found}" if found else None

    def _listed(self, folder: Folder, root: str, target: Target) -> Mapping[Scope, str]:
        return listing.fingerprints(target, listing.units(folder.files, root, target))

    def _moved(self, table: Table, version: str | None, now: str | None) -> Conflict:
        return Conflict(
            f"{table.name} has moved on from version {version} to {now}: a parquet store keeps only the last one",
            unchanged="nothing was changed",
            next_step="run it again: the new attempt reads what is there now",
        )


def _mine(staged: StagedRows) -> ParquetStagedRows:
    assert isinstance(staged, ParquetStagedRows)  # noqa: S101 - staged rows come from the store that opened them
    return staged
