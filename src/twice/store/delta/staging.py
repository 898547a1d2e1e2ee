"""Stage: files go to the claim's own folder inside the table's, where no version refers to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import functions as F

from twice.content.rows import column
from twice.model.framework import WINDOW_COLUMN
from twice.store import claim_errors, data_files, strays
from twice.store.align import aligned
from twice.store.delta import claims, history, jvm, tables
from twice.store.delta.claims import Claims, Mark
from twice.store.delta.layout import conditions
from twice.store.protocol import StagedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.store.delta.locations import Locations

# The properties of a table that decide how its files are written.
_WRITTEN_WITH = ("delta.columnMapping.", "delta.constraints.", "delta.dataSkipping", "delta.parquet.")


_FILE = "_twice_file"
_ZONE = "spark.sql.session.timeZone"


@dataclass
class DeltaStagedRows(StagedRows):
    """A claim's folder, the version it started from, and the scope's files at that time."""

    log: Any = None
    snapshot: Any = None
    base_files: Sequence[jvm.FileInfo] = ()
    added: list[jvm.FileInfo] = field(default_factory=list)
    removed: list[jvm.FileInfo] = field(default_factory=list)
    replaces: bool = True
    # A commit may be under way, or its answer lost: from here on only the log knows.
    tried: bool = False
    ended: bool = False
    _writer: Any = None

    @property
    def application(self) -> str:
        """The scope's name in the table's log."""
        return claims.application(self.target.scope)

    @property
    def adds_columns(self) -> bool:
        """Return whether the staged files have columns that the table does not have yet."""
        return self.metadata is not None and str(self.metadata.schemaString()) != self.base_schema

    @property
    def base_schema(self) -> str:
        """The table's columns when staging was opened."""
        return str(self.snapshot.metadata().schemaString())

    @property
    def metadata(self) -> Any | None:
        """What the staged files were written with; None before the first."""
        return self._writer.metadata() if self._writer is not None else None

    def listed(self, table: Table, version: str) -> bool:
        """Return whether `base_files` are all files of a table at a version."""
        return self.target.table == table and self.base == version and not conditions(self.target)

    def after(self) -> list[jvm.FileInfo]:
        """List the scope's files as they are once everything is published."""
        gone = {file.identity for file in (self.base_files if self.replaces else self.removed)}
        return [*(file for file in self.base_files if file.identity not in gone), *self.added]

    def fingerprints(self) -> Mapping[Scope, str]:
        """Name the files of each partition once everything is published."""
        return data_files.fingerprints(self.target, self.after())

    def writer(self, session: SparkSession, wanted: str, folder: str) -> Any:
        """Return a transaction that writes files like the table's and is never committed; inside of `active`."""
        if self._writer is None:
            live = self.snapshot.metadata()
            properties = live.configuration()
            for name in jvm.configuration(live):
                if not name.startswith(_WRITTEN_WITH):
                    properties = properties.removed(name)
            self._writer = jvm.begin(session, jvm.log_at(session, folder))
            self._writer.updateMetadata(jvm.changed(live, schema=wanted, properties=properties), True)
        return self._writer


def open_staging(session: SparkSession, locations: Locations, target: Target, token: int) -> DeltaStagedRows:
    """Leave the claim's mark, then read the version that readers see now."""
    log = locations.log(session, target.table.id)
    if log is None:
        raise claim_errors.dropped(target.table)
    found = Claims(session, log)
    found.drop(token)  # our own, from an answer that was lost
    snapshot = jvm.snapshot(session, log)
    base = history.current(session, log, int(snapshot.version()))
    found.add(token, Mark(claims.application(target.scope), base))
    return DeltaStagedRows(
        target,
        token,
        str(base),
        log=log,
        snapshot=snapshot,
        base_files=jvm.files_in(session, snapshot, target),
    )


def write(
    session: SparkSession, locations: Locations, staged: DeltaStagedRows, rows: DataFrame, *, first: bool
) -> None:
    """Write rows into the claim's folder."""
    if first:
        staged.added = []
    staged.added += _written(session, locations, staged, rows)
    counts = [file.rows for file in staged.added]
    staged.counted = None if None in counts else sum(count or 0 for count in counts)
    _look(session, staged)


def write_changes(
    session: SparkSession,
    locations: Locations,
    staged: DeltaStagedRows,
    changes: DataFrame,
    *,
    insert_only: bool,
    instead_of: str = "",
) -> None:
    """Write new rows, or rewrite the files that hold rows which change or go."""
    staged.replaces = False
    rows = changes
    if instead_of or not insert_only:
        table = staged.target.table
        matched = [*table.key, *(name for name in table.partition_columns if name not in table.key)]
        before = base(session, staged)
        keys = changes.select(*map(column, matched))
        goes = F.col(WINDOW_COLUMN).eqNullSafe(instead_of)
        # Spark knows the file of a row only where it reads it, below the join.
        found = (before.where(goes) if instead_of else before).select(
            *map(column, matched), F.col("_metadata.file_path").alias(_FILE)
        )
        hit = found if instead_of else found.join(keys, matched, "left_semi")
        staged.removed = _named(staged, [str(row[0]) for row in hit.select(_FILE).distinct().collect()])
        if staged.removed:
            kept = jvm.rows_of(session, staged.log, staged.snapshot, staged.removed)
            kept = kept.where(~goes) if instead_of else kept.join(keys, matched, "left_anti")
            rows = kept.unionByName(changes, allowMissingColumns=True)
    staged.added = _written(session, locations, staged, rows)
    staged.written = _count(session, staged, staged.added)
    _look(session, staged)


def staged(session: SparkSession, staged: DeltaStagedRows) -> DataFrame:
    """Read the scope as it is after the publish."""
    inside = [file for file in staged.after() if staged.target.place(file.partition) is not None]
    return _rows(session, staged, inside)


def base(session: SparkSession, staged: DeltaStagedRows) -> DataFrame:
    """Read the scope as it was when staging was opened, from the files that were listed then."""
    return jvm.rows_of(session, staged.log, staged.snapshot, staged.base_files)


def stray_rows(session: SparkSession, staged: DeltaStagedRows, limit: int) -> list[Mapping[str, object]]:
    """Read some of the rows that lie outside the scope, from the files that hold them."""
    paths = {path for stray in staged.strays for path in stray.files}
    found = _rows(session, staged, [file for file in staged.added if file.path in paths][:20]).limit(limit)
    return [row.asDict(recursive=True) for row in found.collect()]


def _rows(session: SparkSession, staged: DeltaStagedRows, files: Sequence[jvm.FileInfo]) -> DataFrame:
    snapshot = staged.snapshot
    if staged.adds_columns:
        metadata = jvm.changed(snapshot.metadata(), schema=staged.metadata.schemaString())  # type: ignore[union-attr]
        snapshot = jvm.with_metadata(session, staged.log, snapshot, metadata)
    return jvm.rows_of(session, staged.log, snapshot, files)


def _written(
    session: SparkSession, locations: Locations, staged: DeltaStagedRows, rows: DataFrame
) -> list[jvm.FileInfo]:
    """Write rows in the table's column order; a column that the step does not return stays null."""
    wanted = tables.evolved(session, locations, staged.target.table, rows.schema, staged.snapshot)
    ordered = aligned(rows, wanted.fields)
    folder = Claims(session, staged.log).folder(staged.token)
    with _zone_of_partitions(session, staged.target.table, ordered) as ordered, jvm.active(session):
        writer = staged.writer(session, wanted.json(), folder)
        written = jvm.files_of(writer, ordered)
        layout = jvm.layout_of(session, writer.metadata())
        return [
            file
            for file in jvm.moved(session, layout, written, claims.folder_of(staged.token))
            if file.rows != 0  # Spark writes a file for no rows at all
        ]


@contextmanager
def _zone_of_partitions(session: SparkSession, table: Table, rows: DataFrame) -> Iterator[DataFrame]:
    """Let Delta spell instants of partitions in UTC: it passes them through the session's local time.

    In the hour that a clock is turned back, two instants have one local time.
    """
    zone = str(session.conf.get(_ZONE))
    if table.partition is None or not table.partition.grain.sub_day or zone == "UTC":
        yield rows
        return
    # What the step's own code makes of local times is settled before the zone changes.
    settled = rows.localCheckpoint()
    session.conf.set(_ZONE, "UTC")
    try:
        yield settled
    finally:
        session.conf.set(_ZONE, zone)


def _named(staged: DeltaStagedRows, paths: Sequence[str]) -> list[jvm.FileInfo]:
    """Find base files by where Spark read them from."""
    root = str(staged.log.dataPath().toUri().getPath()).rstrip("/")
    known = {_plain(file.path, root): file for file in staged.base_files}
    return [known[_plain(path, root)] for path in paths]


def _plain(path: str, root: str) -> str:
    """Write a file's place in one form: the log has it from the table's folder, Spark from the root, both as URIs."""
    plain = unquote(urlsplit(path).path)
    return plain if plain.startswith("/") else f"{root}/{plain}"


def _look(session: SparkSession, staged: DeltaStagedRows) -> None:
    """Check that the claim is still ours, and find the files that lie outside the scope."""
    if staged.ended or Claims(session, staged.log).mark(staged.token) is None:
        raise claim_errors.taken_over(staged.target, staged.token)
    outside = [file for file in staged.added if staged.target.place(file.partition) is None]
    if not outside:
        staged.strays = []
        return
    rows = _count(session, staged, outside)
    places, paths = [file.partition for file in outside], [file.path for file in outside]
    staged.strays = [strays.outside(staged.target.table, places, rows, paths, kind="delta")]


def _count(session: SparkSession, staged: DeltaStagedRows, files: Sequence[jvm.FileInfo]) -> int:
    """Count rows by the files' statistics, or by reading where the table keeps none."""
    counts = [file.rows for file in files]
    return sum(filter(None, counts)) if None not in counts else _rows(session, staged, files).count()
