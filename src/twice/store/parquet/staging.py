"""Stage and read: what Spark writes into a claim's folder, and reads from there or from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.content.rows import column
from twice.errors import EnvironmentProblem
from twice.store import claim_errors, strays
from twice.store.align import aligned
from twice.store.hadoop import name_encoding
from twice.store.parquet import columns, listing, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from twice.store.parquet.folder import Folder
    from twice.store.parquet.publishing import ParquetStagedRows

# Instants in the names of folders are UTC, whatever the session's zone is.
_ZONE = {"timeZone": "UTC"}
_WRITING = {
    "partitionOverwriteMode": "static",
    # A task's files appear when the driver commits the job, not one by one.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
_LOOKED_AT = 20
# A file that vanishes under a reader must fail the read.
_READING = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


def write(session: SparkSession, folder: Folder, staged: ParquetStagedRows, rows: DataFrame, *, first: bool) -> None:
    """Write rows into the claim's folder, laid out like the table."""
    head = folder.log.head()
    known = tables.text(rows.schema)
    if head is not None and head.version:
        known = columns.together(folder.table.name, head.schema, known)
    staged.schema = known
    ordered = aligned(rows, tables.stored(known).fields)
    writer = ordered.write.mode("overwrite" if first else "append").options(**_ZONE, **_WRITING)
    if folder.table.partition_columns:
        writer = writer.partitionBy(*folder.table.partition_columns)
    writer.parquet(folder.rows(staged.token))
    _look(session, folder, staged)


def frame(session: SparkSession, schema: T.StructType, root: str, *folders: str) -> DataFrame:
    """Read a table's folder, or some below it, with these columns; files that lack one have null in it."""
    found = session.read.schema(schema).options(basePath=root, **_ZONE, **_READING).parquet(*(folders or (root,)))
    return found.select(*(column(name) for name in schema.names))


def staged(session: SparkSession, folder: Folder, staged: ParquetStagedRows) -> DataFrame:
    """Read what was written into the claim's folder."""
    return frame(session, tables.stored(staged.schema), folder.rows(staged.token))


def stray_rows(
    session: SparkSession, folder: Folder, staged: ParquetStagedRows, limit: int
) -> list[Mapping[str, object]]:
    """Read some of the rows that lie outside the scope."""
    files = [file for stray in staged.strays for file in stray.files][:_LOOKED_AT]
    found = _from_files(session, folder, staged, files).limit(limit)
    return [row.asDict(recursive=True) for row in found.collect()]


def require_unicode(session: SparkSession, path: str) -> None:
    """Refuse a path that this Java would write with question marks in it."""
    encoding = name_encoding(session)
    if not path.isascii() and encoding.upper().replace("-", "") != "UTF8":
        raise _no_unicode(path, encoding)


def _look(session: SparkSession, folder: Folder, staged: ParquetStagedRows) -> None:
    """Find the staged rows that lie outside the scope, by the names of their folders."""
    head = folder.log.head()
    if head is None or staged.token in head.ended:
        raise claim_errors.taken_over(staged.target, staged.token)
    found = listing.leaves(folder.files, folder.rows(staged.token), staged.target)
    for leaf in found:
        # Spark escapes a question mark, so one in a name stands for a letter that Java could not write.
        if any(mark in line.rpartition("/")[0] for line in leaf.files for mark in "?\ufffd"):
            raise _no_unicode(leaf.files[0], "no unicode")
    outside = [leaf for leaf in found if leaf.partition is None]
    staged.strays = []
    if outside:
        files = [line.split("\t")[0] for leaf in outside for line in leaf.files]
        rows, places = _from_files(session, folder, staged, files).count(), [leaf.values for leaf in outside]
        staged.strays = [strays.outside(folder.table, places, rows, files, kind="parquet")]


def _from_files(session: SparkSession, folder: Folder, staged: ParquetStagedRows, files: Sequence[str]) -> DataFrame:
    # A task gives its files the same name in every folder: only the folder tells them apart.
    root = folder.rows(staged.token)
    folders = dict.fromkeys(listing.join(root, file.rpartition("/")[0]) for file in files)
    return frame(session, tables.stored(staged.schema), root, *folders)


def _no_unicode(path: str, encoding: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"Java on this machine cannot write the name {path}: its file names are {encoding}",
        unchanged="nothing was published",
        next_step="export LC_ALL=C.UTF-8 before Spark starts",
    )
