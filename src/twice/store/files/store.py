"""Files as a source: a table is a folder, its partitions are folders in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.rows import column
from twice.errors import SchemaRefused, StoreRefused
from twice.store.files import listing
from twice.store.protocol import Abilities

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.files.settings import FilesSettings


class FilesSource:
    """Folders of CSV, JSON or Parquet files below one path."""

    abilities = Abilities(
        "files",
        writes=(),
        pins=False,
        history=False,
        instead='write to a store of type "parquet", "iceberg", "delta" or "sql"',
    )

    def __init__(self, settings: FilesSettings) -> None:
        self._settings = settings

    def folder(self, table: Table) -> str:
        """Return the folder that holds the table's files."""
        return "/".join([self._settings.path, *table.id.parts[1:]])

    def exists(self, session: SparkSession, table: Table) -> bool:
        """Return whether the folder is there."""
        return self._in_hadoop(session, table).exists()

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Name the files that are there now; None when there are none."""
        return _version(self._in_hadoop(session, table))

    def peek(self, table: Table) -> str | None:
        """Return the same as `version`, on a disk of this machine."""
        folder = self._on_disk(table)
        return _version(folder) if folder is not None else None

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read the files that are there now: before it publishes, the engine checks that they still are."""
        wanted = self._declared(table)
        if version is None and wanted is not None:
            return session.createDataFrame([], wanted)
        reader = session.read.format(self._settings.format).options(**self._settings.options)
        if wanted is not None:
            reader = reader.schema(wanted)
        elif "mergeschema" not in {name.lower() for name in self._settings.options}:
            reader = reader.option("mergeSchema", "true")  # else one file's columns would be taken for all
        try:
            rows = reader.load(listing.literal(self.folder(table)))
        except AnalysisException as error:
            raise StoreRefused(
                f"{table.name}: Spark cannot read {self.folder(table)}: {str(error).splitlines()[0]}",
                unchanged="nothing was changed",
                next_step='declare schema="…" on the table, or correct its files',
            ) from error
        if wanted is not None:  # Spark puts the folders' columns last
            rows = rows.select([column(name) for name in wanted.names])
        self._check_partition(table, rows.schema)
        return rows.where(F.lit(False)) if version is None else rows

    def follow(self, session: SparkSession, table: Table, options: Mapping[str, str]) -> DataFrame:
        """Read the files that are put into the table's folder."""
        wanted = self._declared(table)
        if wanted is None:
            raise SchemaRefused(
                f"{table.name}: a stream needs the columns of its files before the first one is there",
                unchanged="nothing was changed",
                next_step='add schema="…" to the table',
            )
        reader = session.readStream.format(self._settings.format).schema(wanted)
        return reader.options(**self._settings.options).options(**options).load(listing.literal(self.folder(table)))

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:  # noqa: ARG002
        """Fingerprint the files of each partition's folder, as they are now."""
        return _files(self._in_hadoop(session, target.table), target)

    def peek_files(self, target: Target) -> Mapping[Scope, str] | None:
        """Return the same as `files`, on a disk of this machine."""
        folder = self._on_disk(target.table)
        return _files(folder, target) if folder is not None else None

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name all files: any of them may hold rows of the window."""
        return self.version(session, table) or ""

    def peek_seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Return the same as `seen`, on a disk of this machine."""
        folder = self._on_disk(table)
        return (_version(folder) or "") if folder is not None else None

    def peek_check(self, table: Table) -> bool | None:  # noqa: ARG002
        """Return False: no run writes here."""
        return False

    def release(self, session: SparkSession) -> None:
        """Hold nothing."""

    def _in_hadoop(self, session: SparkSession, table: Table) -> listing.Folder:
        return listing.InHadoop(session, self.folder(table))

    def _on_disk(self, table: Table) -> listing.Folder | None:
        """Return the folder if it is on this machine's disk: a path may as well be one of the cluster's file system."""
        folder = listing.OnDisk(self.folder(table))
        return folder if self._settings.local and folder.exists() else None

    def _declared(self, table: Table) -> T.StructType | None:
        if table.schema is None:
            if self._settings.format == "parquet":
                return None
            raise SchemaRefused(
                f"{table.name}: {self._settings.format} files do not declare their types; inferring them reads "
                "everything and may give another type tomorrow",
                unchanged="nothing was changed",
                next_step='add schema="order_id BIGINT, …" to the table',
            )
        try:
            parsed = T.StructType.fromDDL(str(table.schema))
        except PySparkException as error:
            raise SchemaRefused(
                f"{table.name}: the declared schema cannot be read: {str(error).splitlines()[0]}: {table.schema}"
            ) from None
        assert isinstance(parsed, T.StructType)  # noqa: S101 - what the DDL of a table is
        return parsed

    def _check_partition(self, table: Table, schema: T.StructType) -> None:
        if table.partition is None:
            return
        name, sub_day = table.partition.column, table.partition.grain.sub_day
        wanted: T.DataType = T.TimestampType() if sub_day else T.DateType()
        found = schema[name].dataType if name in schema.names else None
        if found != wanted:
            raise SchemaRefused(
                f"{table.name}: its partition column {name} is "
                f"{found.simpleString() if found else 'in no file and in no folder name'}, but a partition by "
                f"{table.partition.grain} is a {wanted.simpleString()}",
                unchanged="nothing was changed",
                next_step=f"name the folders {name}={'2026-04-25 10%3A00%3A00' if sub_day else '2026-04-25'}, "
                f"and declare {name} {wanted.simpleString().upper()} where the table has a schema",
            )


def _version(folder: listing.Folder) -> str | None:
    return (listing.fingerprint(listing.files(folder)) or None) if folder.exists() else None


def _files(folder: listing.Folder, target: Target) -> Mapping[Scope, str]:
    grouped: dict[Scope, list[listing.Listed]] = {partition: [] for partition in target.partitions}
    if folder.exists():
        for file in listing.files(folder, partial(_inside, target)):
            if (place := _place(target, file)) is not None:
                grouped[place].append(file)
    return {partition: listing.fingerprint(files) for partition, files in grouped.items()}


def _inside(target: Target, name: str, text: str | None) -> bool:
    """Return whether a folder `name=text` may hold files of the target."""
    partition, bounds = target.table.partition, target.bounds()
    if partition is None or bounds is None or name.lower() != partition.column.lower():
        return True
    value = _value(text, sub_day=partition.grain.sub_day)
    if value is None and text is not None:
        # Spark may still read it as a date, and then its files would be read without being fingerprinted.
        raise StoreRefused(
            f"{target.table.name}: the folder {name}={text} does not name a partition by {partition.grain}",
            unchanged="nothing was changed",
            next_step=f"name it {name}={'2026-04-25 10%3A00%3A00' if partition.grain.sub_day else '2026-04-25'}",
        )
    return value is not None and bounds[0] <= value < bounds[1]


def _place(target: Target, file: listing.Listed) -> Scope | None:
    """Return the partition that a file's folders name; None if it is not one of the target's."""
    table = target.table
    found = {name.lower(): text for name, text in file.values}
    if absent := [name for name in table.partition_columns if name.lower() not in found]:
        layout = "/".join(f"{name}=…" for name in table.partition_columns)
        raise StoreRefused(
            f"{table.name}: {file.path} is not in a folder {absent[0]}=…, so its partition is not known",
            unchanged="nothing was changed",
            next_step=f'lay the files out as {layout}/, or declare event_time="…" instead of partition=',
        )
    dimensions = [found[name.lower()] for name in table.dimensions]
    if table.partition is None:
        return target.partition_of(None, dimensions)
    value = _value(found[table.partition.column.lower()], sub_day=table.partition.grain.sub_day)
    return target.partition_of(value, dimensions)


def _value(text: str | None, *, sub_day: bool) -> date | None:
    """Read a folder's value as the partition column holds it; None if it is not valid."""
    if text is None:
        return None
    try:
        if not sub_day:
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
