"""Stage: rows go to a branch of their own, where no reader looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from twice.content.counts import expects_at_most
from twice.content.filters import scope_filter
from twice.errors import Conflict, StoreRefused
from twice.model.framework import WINDOW_COLUMN
from twice.model.names import quote, quote_text
from twice.store import claim_errors, data_files
from twice.store.align import aligned
from twice.store.iceberg import grouping, jvm, listing
from twice.store.iceberg.branches import SHADOW, STAGED, Line
from twice.store.protocol import StagedRows, Stray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.model.scopes import Scope
    from twice.model.targets import Target

KEEP_ALL = 2**31 - 1
_MARKED = f"spark.sql.iceberg.snapshot-property.{STAGED}"


@dataclass
class IcebergStagedRows(StagedRows):
    """A branch, and the snapshot it started from, which the branch keeps."""

    replaces: bool = True
    # The branch's snapshot when it was last read.
    head: str | None = None
    # The branch's files, once looked up: head, added, removed.
    _changed: tuple[int, list[listing.FileInfo], list[listing.FileInfo]] | None = None

    @property
    def line(self) -> Line:
        """The line of versions that the rows are staged for."""
        return Line.of(self.target.table.id)

    @property
    def branch(self) -> str:
        """The branch's name for Spark: the table's name with one more part."""
        return f"{self.target.table.id.sql}.{quote('branch_' + self.line.branch_of(self.token))}"

    @property
    def mark(self) -> str:
        """The mark of the staged rows in the summaries of their snapshots."""
        return self.line.mark(self.token)

    def fingerprints(self) -> Mapping[Scope, str]:
        """Fingerprint the files that a replaced scope was staged in, by partition, as of the last lookup."""
        return data_files.fingerprints(self.target, self._changed[1] if self._changed else [])

    def changed_files(self, session: SparkSession, table: Any) -> tuple[list[listing.FileInfo], list[listing.FileInfo]]:
        """List the files that the branch added to, and removed from, what it started with."""
        head = jvm.snapshot_of(table, self.line.branch_of(self.token))
        if self._changed and head is not None and self._changed[0] == head.snapshotId():
            return self._changed[1], self._changed[2]
        base = int(self.base) if self.base is not None else None
        added: dict[str, listing.FileInfo] = {}
        removed: dict[str, listing.FileInfo] = {}
        walked = list(jvm.history(table, head, base))
        if walked and walked[-1].parentId() != base:
            raise Conflict(
                f"{self.target.table.name}, {self.target.scope}: snapshots of the staged rows expired "
                "while the rows were written",
                unchanged="nothing was published",
                next_step="run it again; twice maintain expires nothing under a running claim",
            )
        for snapshot in reversed(walked):
            for file in listing.describe(session, table, snapshot.removedDataFiles(table.io())):
                if added.pop(file.location, None) is None:
                    removed[file.location] = file
            for file in listing.describe(session, table, snapshot.addedDataFiles(table.io())):
                added[file.location] = file
        found = list(added.values()), list(removed.values())
        self._changed = (head.snapshotId(), *found) if head is not None else None
        return found


def open_staging(session: SparkSession, target: Target, token: int) -> IcebergStagedRows:
    """Create the branch from what readers see now."""
    line = Line.of(target.table.id)
    branch = line.branch_of(token)

    def attempt() -> IcebergStagedRows:
        table = jvm.load(session, target.table.id)
        if table is None:
            raise claim_errors.dropped(target.table)
        if branch in table.refs():  # our own, whose answer was lost: it may be older than main
            table.manageSnapshots().removeBranch(branch).commit()
            table.refresh()
        current = line.head(table)
        refs = table.manageSnapshots()
        refs = refs.createBranch(branch, current.snapshotId()) if current else refs.createBranch(branch)
        # An external snapshot expiry must not remove what staging started from, or its first batches.
        refs.setMinSnapshotsToKeep(branch, KEEP_ALL).commit()
        return IcebergStagedRows(target, token, str(current.snapshotId()) if current else None)

    return jvm.retried(attempt)


def write(session: SparkSession, staged: IcebergStagedRows, rows: DataFrame, *, first: bool) -> None:
    """Write rows to the branch in the table's column order."""
    ordered = _ordered(session, staged, rows)
    writer = ordered.writeTo(staged.branch).option(f"snapshot-property.{STAGED}", staged.mark)
    if staged.line.shadow:
        writer = writer.option(f"snapshot-property.{SHADOW}", staged.line.shadow)
    if grouping.is_grouped(session, ordered, staged.target.table.partition_columns):
        # Each task holds whole partitions, one after the other: neither a shuffle nor a sort makes fewer files.
        writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
    elif _fits_in_memory(session, rows):
        # One open file per partition instead of a sort: together they hold no more than the result.
        writer = writer.option("fanout-enabled", "true")
    if first:
        writer.overwrite(scope_filter(staged.target))
    else:
        writer.append()
    schema = str(look(session, staged).schema())
    # Iceberg stores a uuid, which Spark reads as text, in its own format: such rows are read to be compared.
    staged.counted = None if "uuid" in schema else staged.written


def write_changes(
    session: SparkSession, staged: IcebergStagedRows, changes: DataFrame, *, insert_only: bool, instead_of: str = ""
) -> None:
    """Upsert rows on the branch by the table's key, or replace the rows with a mark by them."""
    staged.replaces = False
    rows = _ordered(session, staged, changes)
    if instead_of:
        _require_whole_files(session, staged)
        with _marked(session, staged):
            # The name is a constant, the value quoted by a function that is property-tested.
            statement = f"DELETE FROM {staged.branch} WHERE {WINDOW_COLUMN} = {quote_text(instead_of)}"  # noqa: S608
            session.sql(statement)
    if insert_only:
        writer = rows.writeTo(staged.branch).option(f"snapshot-property.{STAGED}", staged.mark)
        if _fits_in_memory(session, rows):
            writer = writer.option("fanout-enabled", "true")
        writer.append()
    else:
        table = staged.target.table
        matched = [*table.key, *(name for name in table.partition_columns if name not in table.key)]
        same = " AND ".join(f"target.{quote(name)} = changes.{quote(name)}" for name in matched)
        view = f"twice_changes_{staged.token}"
        rows.createOrReplaceTempView(view)
        try:
            with _marked(session, staged):
                # Names are quoted by `quote`, values never enter the text.
                session.sql(
                    f"MERGE INTO {staged.branch} AS target USING {view} AS changes ON {same} "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
        finally:
            session.catalog.dropTempView(view)
    look(session, staged)


def _require_whole_files(session: SparkSession, staged: IcebergStagedRows) -> None:
    """Refuse a table whose deletes are files of their own: a publish moves data files alone."""
    live = jvm.load(session, staged.target.table.id)
    if live is not None and str(live.properties().get("write.delete.mode") or "") == "merge-on-read":
        raise StoreRefused(
            f"{staged.target.table.name} has write.delete.mode = merge-on-read, so rows cannot be replaced by batch",
            unchanged="nothing was published",
            next_step=f"ALTER TABLE {staged.target.table.id.sql} "
            "SET TBLPROPERTIES ('write.delete.mode'='copy-on-write')",
        )


@contextmanager
def _marked(session: SparkSession, staged: IcebergStagedRows) -> Iterator[None]:
    """Let statements, which have no options, mark their snapshots as staged."""
    session.conf.set(_MARKED, staged.mark)
    try:
        yield
    finally:
        session.conf.unset(_MARKED)


def stray_rows(session: SparkSession, staged: IcebergStagedRows, limit: int) -> list[Mapping[str, object]]:
    """Read some of the rows that are outside the scope, from the files that hold them."""
    files = [file for stray in staged.strays for file in stray.files][:20]
    found = session.table(staged.branch).where(F.col("_file").isin(files)).limit(limit)
    return [row.asDict(recursive=True) for row in found.collect()]


def _ordered(session: SparkSession, staged: IcebergStagedRows, rows: DataFrame) -> DataFrame:
    """Put the columns in the table's order; one that no version ever had, from a refused attempt, stays null."""
    live = jvm.load(session, staged.target.table.id)
    if live is None:
        raise claim_errors.dropped(staged.target.table)
    return aligned(rows, jvm.schema_of(session, live).fields)


def _fits_in_memory(session: SparkSession, rows: DataFrame) -> bool:
    """Return whether Spark expects the whole result to fill no more than a quarter of the driver's heap."""
    return expects_at_most(rows, jvm.heap(session) // 4)


def look(session: SparkSession, staged: IcebergStagedRows) -> Any:
    """Find the staged version and the files that lie outside the scope, from metadata alone; return the live table."""
    table = jvm.load(session, staged.target.table.id)
    head = jvm.snapshot_of(table, staged.line.branch_of(staged.token)) if table is not None else None
    if table is None or head is None:
        raise claim_errors.taken_over(staged.target, staged.token)
    staged.head = str(head.snapshotId())
    added, _ = staged.changed_files(session, table)
    staged.written = sum(file.rows for file in added)
    strays = [file for file in added if staged.target.place(file.partition) is None]
    names = sorted({", ".join(f"{k}={v}" for k, v in file.partition.items()) for file in strays})
    staged.strays = (
        [Stray(sum(file.rows for file in strays), tuple(names), tuple(file.location for file in strays))]
        if strays
        else []
    )
    return table
