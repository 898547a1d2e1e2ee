"""Creating tables, checking live ones against their contract, accepting new columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from twice.content.nullability import plain
from twice.errors import SchemaRefused, StoreRefused
from twice.store import schema_rules
from twice.store.parquet import swap
from twice.store.parquet.folder import BOOKKEEPING, Folder
from twice.store.parquet.listing import join
from twice.store.parquet.log import State
from twice.store.parquet.names import split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.tables import Table


def check(folder: Folder) -> None:
    """Refuse a live table whose folders are not the contract's scope columns, or that lies inside another."""
    table, path = folder.table, ""
    above, depth = folder.bookkeeping.rpartition(f"/{BOOKKEEPING}/")[0], len(table.id.namespace)
    for _ in range(depth):
        above, _, name = above.rpartition("/")
        if folder.files.exists(f"{above}/{BOOKKEEPING}/{name}/log"):
            raise _nested(folder, f"inside the folder of another table, {above}/{name}")
    if folder.files.exists(f"{folder.data}/{BOOKKEEPING}"):
        raise _nested(folder, "around the folders of other tables")
    for column in (*table.partition_columns, None):
        seen = [entry for entry in folder.files.entries(join(folder.data, path)) if not entry.hidden]
        folders = [entry for entry in seen if entry.is_folder]
        for entry in folders:
            named = split(entry.name)
            if named is None or named[0] != column:
                raise _other_layout(folder, f"the folder {join(path, entry.name) if path else entry.name}")
        if column is not None and len(seen) > len(folders):
            raise _other_layout(folder, f"files in {join(folder.data, path)}")
        if not folders:
            return
        path = join(path, folders[0].name) if path else folders[0].name


def prepare(session: SparkSession, folder: Folder, schema: T.StructType) -> None:
    """Create the table for a result's schema, or check that the result only adds columns to it."""
    _check_columns(folder.table, schema)
    while True:
        head = swap.settle(folder)
        if head is not None and head.version:
            _require_additive(folder.table, stored(head.schema), schema)
            return
        is_there = head is not None and head.stands != "gone"
        next_ = head.following() if head is not None else State(0, 0, "")
        if not is_there and folder.has_data():  # folders of another writer: from now on they are ours
            first = replace(next_, version=1, schema=text(adopted(session, folder)), stands="yes")
        else:
            # Nothing was ever published: the columns of an attempt that failed bind no other.
            first = replace(next_, schema=text(schema), stands=next_.stands if is_there else "new")
            if is_there and head is not None and head.schema == first.schema:
                return
        if folder.log.commit(first) and not first.version:
            return


def stored(schema: str) -> T.StructType:
    """Read the columns that the log keeps."""
    return T.StructType.fromJson(json.loads(schema))


def text(schema: T.StructType) -> str:
    """Write columns for the log: everything may be null, comments are left out."""
    return schema_rules.nullable(schema).json()


def adopted(session: SparkSession, folder: Folder) -> T.StructType:
    """Find the columns of a folder that twice has not written, with the contract's partition columns."""
    kinds: dict[str, T.DataType] = {name: T.StringType() for name in folder.table.dimensions}
    if partition := folder.table.partition:
        kinds[partition.column] = T.TimestampType() if partition.grain.sub_day else T.DateType()
    found = session.read.option("basePath", folder.data).parquet(folder.data).schema
    return T.StructType([T.StructField(field.name, kinds.get(field.name, field.dataType)) for field in found.fields])


def _check_columns(table: Table, schema: T.StructType) -> None:
    kinds = schema_rules.typed_columns(table, schema)
    schema_rules.require_distinct(table, list(kinds), "readers of Parquet")
    if set(kinds) <= set(table.partition_columns):
        raise SchemaRefused(
            f"{table.name}: every column is a partition or a dimension, so there is nothing to put into the files",
            next_step="return at least one column more",
        )


def _require_additive(table: Table, there: T.StructType, new: T.StructType) -> None:
    kinds = {field.name: field.dataType for field in new.fields}
    if gone := [field.name for field in there.fields if field.name not in kinds]:
        keep = "keep the column in the step, as null if need be, or write to a table of another name"
        raise schema_rules.columns_gone(table, gone, keep)
    for field in there.fields:
        if plain(kinds[field.name]) != plain(field.dataType):
            raise schema_rules.other_type(table, field.name, field.dataType.simpleString(), kinds[field.name])


def _other_layout(folder: Folder, found: str) -> StoreRefused:
    table = folder.table
    wanted = "/".join(f"{name}=…" for name in table.partition_columns) or "files without folders"
    return StoreRefused(
        f"{table.name} has {found}, but its contract says {wanted}: a run could not replace its scope as whole folders",
        unchanged="nothing was changed",
        next_step="make the contract match the folders, or write to a table of another name",
    )


def _nested(folder: Folder, where: str) -> StoreRefused:
    return StoreRefused(
        f"{folder.table.name} would be stored {where}",
        unchanged="nothing was changed",
        next_step="give one of them another namespace",
    )
