"""Creating Iceberg tables, checking live ones against their contract, adding columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import types as T

from twice.content.java import items_of
from twice.content.nullability import plain
from twice.errors import StoreRefused
from twice.model.names import quote
from twice.model.patterns import Merge
from twice.store import schema_rules
from twice.store.iceberg import jvm
from twice.store.iceberg.branches import ADDED, CREATED, UNPUBLISHED, Line, added_by_others, shadows_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.tables import Table
    from twice.store.iceberg.catalog import CatalogDatabase

# Names the columns that Iceberg keeps in a wider type, and the type that the step returns: smallint becomes int.
NARROW = "twice.narrow"
# Iceberg can widen these in place: (from, to).
_WIDENED = {("int", "bigint"), ("float", "double")}


def check(session: SparkSession, table: Table) -> None:
    """Refuse a live table whose partitions are not the contract's scope columns."""
    live = jvm.load(session, table.id)
    if live is None:
        return
    fields = list(items_of(live.spec().fields()))
    found = [f"{field.transform()}({live.schema().findColumnName(field.sourceId())})" for field in fields]
    wanted = [f"identity({name})" for name in table.partition_columns]
    if sorted(found) != sorted(wanted):
        raise StoreRefused(
            f"{table.name} is partitioned by {', '.join(found) or 'nothing'}, but its Table(…) declares "
            f"{', '.join(wanted) or 'nothing'}: a run could not replace its scope as whole files",
            unchanged="nothing was changed",
            next_step="change partition= and dimensions= of the Table(…); or repartition the table: ALTER TABLE "
            f"{table.id.sql} REPLACE PARTITION FIELD … WITH …, then CALL ….system.rewrite_data_files(table => '…', "
            "options => map('rewrite-all', 'true'))",
        )
    if isinstance(table.write, Merge) and live.properties().get("write.merge.mode") == "merge-on-read":
        raise StoreRefused(
            f"{table.name} merges on read; its delete files cannot be published from a branch",
            next_step=f"ALTER TABLE {table.id.sql} SET TBLPROPERTIES ('write.merge.mode'='copy-on-write')",
        )


def prepare(session: SparkSession, table: Table, schema: T.StructType) -> None:
    """Create the table for a result's schema, or add the result's new columns to it."""
    schema_rules.typed_columns(table, schema)

    def attempt() -> None:
        live = jvm.load(session, table.id)
        if live is None:
            _create(session, table, schema)
        else:
            _extend(session, table, schema, live)

    jvm.retried(attempt)


def _create(session: SparkSession, table: Table, schema: T.StructType) -> None:
    catalog, spaces, identifier = jvm.place(session, table.id)
    columns = jvm.columns(session, schema_rules.nullable(schema))
    spec = jvm.known(session, "org.apache.iceberg.PartitionSpec", "builderFor")(columns)
    for name in table.partition_columns:
        spec.identity(name)
    properties = jvm.known(session, "java.util.HashMap")()
    for name, value in {
        "format-version": "2",
        "write.merge.mode": "copy-on-write",
        "write.delete.mode": "copy-on-write",
        "write.update.mode": "copy-on-write",
        "write.parquet.compression-codec": "zstd",
        **({NARROW: json.dumps(narrow)} if (narrow := _narrow(schema)) else {}),
        **({"comment": table.description} if table.description else {}),
        **({"owner": table.owner} if table.owner else {}),
        **({Line.of(table.id).key(CREATED): "true"} if table.id.shadow else {UNPUBLISHED: "true"}),
    }.items():
        properties.put(name, value)
    _create_namespace(catalog, spaces)
    try:
        catalog.createTable(identifier, columns, spec.build(), properties)
    except (Py4JJavaError, CapturedException) as error:
        # Another process was first: its table is checked like any other when it is loaded next.
        if not jvm.java_class(error).endswith("AlreadyExistsException"):
            raise


def drop_unpublished(session: SparkSession, catalog: CatalogDatabase | None, table: Table) -> None:
    """Drop a table that was created for attempts of which none succeeded, unless another one is at work in it.

    Opening staging is a commit: an attempt that opens it after this check has changed the metadata file by which the
    catalog is asked to drop the table.
    """
    live = jvm.load(session, table.id) if catalog is not None else None
    if live is None or live.properties().get(UNPUBLISHED) is None:
        return
    metadata = live.operations().current()
    if metadata.currentSnapshot() is not None or not metadata.refs().isEmpty():
        return
    if catalog is not None and catalog.forget(table.id, str(metadata.metadataFileLocation())):
        jvm.known(session, "org.apache.iceberg.CatalogUtil", "dropTableData")(live.io(), metadata)


def _create_namespace(catalog: Any, spaces: Any) -> None:
    if catalog.namespaceExists(spaces):
        return
    try:
        catalog.createNamespace(spaces)
    except (Py4JJavaError, CapturedException):
        # Another writer was first; catalogs report it in different ways.
        if not catalog.namespaceExists(spaces):
            raise


def _extend(session: SparkSession, table: Table, schema: T.StructType, live: Any) -> None:
    there = {field.name: field.dataType for field in jvm.schema_of(session, live).fields}
    here = {field.name: field.dataType for field in schema.fields}
    unseen = {name for line in shadows_at(live) for name in line.added(live)}
    if gone := [name for name in there if name not in here and name in published(live) - unseen]:
        drop = "; ".join(f"ALTER TABLE {table.id.sql} DROP COLUMN {quote(name)}" for name in gone)
        raise schema_rules.columns_gone(table, gone, f"{drop}, or keep the column in the step")
    narrow = json.loads(live.properties().get(NARROW) or "{}")
    for name, kind in here.items():
        if name in there and not _is_same(kind, plain(there[name]), narrow.get(name)):
            widen = _widening(table, name, there[name], kind)
            raise schema_rules.other_type(table, name, there[name].simpleString(), kind, widen)
    new = [name for name in here if name not in there]
    added = _added_after(live, Line.of(table.id), here, new)
    if not new and not added:
        return
    # A column of this name may have been dropped, with a shadow or by hand: its recorded type no longer counts.
    kept = {name: kind for name, kind in narrow.items() if name not in new}
    widened = {**kept, **{name: kind for name, kind in _narrow(schema).items() if name in new}}
    transaction = live.newTransaction()
    update = transaction.updateSchema()
    for name in new:
        update.addColumn(None, name, jvm.columns(session, plain(here[name])))
    update.commit()
    if added or widened != narrow:
        properties = transaction.updateProperties()
        for key, names in added.items():
            properties.set(key, json.dumps(sorted(names)))
        if widened != narrow:
            properties.set(NARROW, json.dumps(widened))
        properties.commit()
    transaction.commitTransaction()


def _added_after(live: Any, line: Line, here: Mapping[str, object], new: list[str]) -> dict[str, set[str]]:
    """Return a shadow's own columns: those that it needs added, until the table itself is written with them."""
    if line.shadow:
        # One that another shadow added must outlive that shadow.
        mine = line.added(live) | set(new) | (added_by_others(live, line) & set(here))
        return {line.key(ADDED): mine} if mine != line.added(live) else {}
    found = {other.key(ADDED): other.added(live) for other in shadows_at(live)}
    return {key: names - set(here) for key, names in found.items() if names & set(here)}


def _is_same(kind: T.DataType, there: T.DataType, narrow: str | None) -> bool:
    """Return whether a step returns what a column holds: its own type, or the narrower one that it was created for."""
    return plain(kind) == there or (_kept(kind) == there and narrow == kind.simpleString())


def _narrow(schema: T.StructType) -> dict[str, str]:
    """Name the columns that Iceberg keeps in a wider type than the step returns."""
    return {
        field.name: field.dataType.simpleString()
        for field in schema.fields
        if _kept(field.dataType) != plain(field.dataType)
    }


def _kept(kind: T.DataType) -> T.DataType:
    """Return a type as Iceberg keeps it: nullable, and without integers of less than 32 bits."""
    if isinstance(kind, T.ByteType | T.ShortType):
        return T.IntegerType()
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, _kept(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_kept(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_kept(kind.keyType), _kept(kind.valueType))
    return kind


def published(live: Any) -> set[str]:
    """Name the columns of the version that readers see: a refused attempt may have added more."""
    current = live.currentSnapshot()
    schema = live.schemas().get(current.schemaId()) if current is not None else None
    return {str(column.name()) for column in items_of(schema.columns())} if schema is not None else set()


def _widening(table: Table, name: str, old: T.DataType, new: T.DataType) -> str:
    """Return how to widen a column in place; empty where Iceberg cannot."""
    grown = (
        isinstance(old, T.DecimalType)
        and isinstance(new, T.DecimalType)
        and old.scale == new.scale
        and new.precision > old.precision
    )
    if grown or (old.simpleString(), new.simpleString()) in _WIDENED:
        return f"ALTER TABLE {table.id.sql} ALTER COLUMN {quote(name)} TYPE {new.simpleString()}"
    return ""
