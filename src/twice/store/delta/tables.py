"""Creating Delta tables, checking live ones against their contract, deciding which columns staged rows add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import types as T

from twice.content.nullability import plain
from twice.errors import SchemaRefused, StoreRefused
from twice.model.names import quote
from twice.model.patterns import InsertOnly
from twice.store import schema_rules
from twice.store.delta import jvm
from twice.store.delta.layout import is_mapped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.tables import Table
    from twice.store.delta.locations import Locations

# Delta names files' columns after the table's; these characters need names of their own in the files.
_ODD = set(" ,;{}()\n\t=")


def check(session: SparkSession, locations: Locations, table: Table) -> None:
    """Refuse a live table whose partitions are not the contract's scope columns, or that is closed to replacing."""
    log = locations.log(session, table.id)
    if log is None:
        return
    metadata = jvm.snapshot(session, log).metadata()
    found = jvm.partition_columns(metadata)
    wanted = list(table.partition_columns)
    if sorted(found) != sorted(wanted):
        raise StoreRefused(
            f"{table.name} is partitioned by {', '.join(found) or 'nothing'}, but its contract says "
            f"{', '.join(wanted) or 'nothing'}: a run could not replace its scope as whole files",
            unchanged="nothing was changed",
            next_step=f"make the contract match the table, or write {locations.sql(table.id)} again with "
            f"PARTITIONED BY ({', '.join(map(quote, wanted))})",
        )
    closed = jvm.configuration(metadata).get("delta.appendOnly") == "true"
    if closed and table.write is not None and not isinstance(table.write, InsertOnly):
        raise StoreRefused(
            f"{table.name} is append-only (delta.appendOnly): nothing in it can be replaced",
            unchanged="nothing was changed",
            next_step=f"ALTER TABLE {locations.sql(table.id)} SET TBLPROPERTIES ('delta.appendOnly'='false'), "
            "or write it with InsertOnly()",
        )


def prepare(session: SparkSession, locations: Locations, table: Table, schema: T.StructType) -> None:
    """Create the table for a result's schema; new columns of a live one come with the publish."""
    schema_rules.require_distinct(table, list(schema_rules.typed_columns(table, schema)), "readers of Delta")
    log = locations.log(session, table.id)
    if log is None:
        _create(session, locations, table, schema)
        log = locations.log(session, table.id)
        check(session, locations, table)  # another process may have been first
    if log is not None:
        evolved(session, locations, table, schema, jvm.snapshot(session, log))


def evolved(
    session: SparkSession, locations: Locations, table: Table, schema: T.StructType, snapshot: Any
) -> T.StructType:
    """Return the live table's columns with the result's new ones; refuse every other change."""
    live = jvm.schema_of(snapshot.metadata())
    there = {field.name: field.dataType for field in live.fields}
    here = {field.name: field.dataType for field in schema.fields}
    # A table that holds nothing, perhaps from a refused first attempt, has no column to lose.
    gone = [name for name in there if name not in here]
    if gone and jvm.files_in(session, snapshot):
        drop = "; ".join(f"ALTER TABLE {locations.sql(table.id)} DROP COLUMN {quote(name)}" for name in gone)
        needs = "(it needs 'delta.columnMapping.mode'='name')"
        raise schema_rules.columns_gone(table, gone, f"{drop} {needs}, or keep the column in the step")
    for name, kind in here.items():
        if name in there and plain(kind) != plain(there[name]):
            raise schema_rules.other_type(table, name, there[name].simpleString(), kind)
    new = [T.StructField(name, plain(kind), True) for name, kind in here.items() if name not in there]
    mapped = is_mapped(jvm.configuration(snapshot.metadata()))
    if not mapped and (odd := [field.name for field in new if _ODD & set(field.name)]):
        raise SchemaRefused(
            f"{table.name}: Delta allows the column name {', '.join(map(repr, odd))} only with column mapping",
            unchanged="the table is as it was",
            next_step=f"ALTER TABLE {locations.sql(table.id)} SET TBLPROPERTIES ('delta.columnMapping.mode'='name'), "
            "or give the column a name without spaces and brackets in the step",
        )
    return T.StructType([*live.fields, *new])


def _create(session: SparkSession, locations: Locations, table: Table, schema: T.StructType) -> None:
    nullable = schema_rules.nullable(schema)
    properties = {
        **({"delta.columnMapping.mode": "name"} if any(_ODD & set(name) for name in nullable.names) else {}),
        **({"owner": table.owner} if table.owner else {}),
    }
    path = locations.path(table.id)
    if path is None:
        _create_in_catalog(session, locations, table, nullable, properties)
        return
    log = jvm.log_at(session, path)
    with jvm.active(session):
        transaction = jvm.begin(session, log)
        new = transaction.metadata()
        settings = new.configuration()
        for name, value in properties.items():
            settings = settings.updated(name, value)
        columns = jvm.sequence(session, table.partition_columns)
        described = table.description or None
        transaction.updateMetadataForNewTable(
            new.copy(
                new.id(), new.name(), described, new.format(), nullable.json(), columns, settings, new.createdTime()
            )
        )
        log.createLogDirectoriesIfNotExists()
        try:
            jvm.commit(session, transaction, (), jvm.created(session, transaction.metadata()))
        except (Py4JJavaError, CapturedException) as error:
            # Another process was first: its table is checked like any other on the next look.
            if not jvm.is_commit_race(error):
                raise


def _create_in_catalog(
    session: SparkSession, locations: Locations, table: Table, schema: T.StructType, properties: dict[str, str]
) -> None:
    session.sql(f"CREATE DATABASE IF NOT EXISTS spark_catalog.{quote(table.id.namespace[0])}")
    rows = session.createDataFrame([], schema)
    writer = rows.writeTo(locations.sql(table.id)).using("delta")
    if table.description:
        writer = writer.tableProperty("comment", table.description)
    for name, value in properties.items():
        writer = writer.tableProperty(name, value)
    if table.partition_columns:
        first, *others = (rows[quote(name)] for name in table.partition_columns)
        writer = writer.partitionedBy(first, *others)
    try:
        writer.create()
    except CapturedException as error:
        if "ALREADY_EXISTS" not in str(error):
            raise
