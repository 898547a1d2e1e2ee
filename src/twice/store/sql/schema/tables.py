"""Creating tables, checking live ones against their contract, adding columns."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from pyspark.sql import types as T

from twice.content.nullability import plain
from twice.errors import SchemaRefused, StoreRefused, TwiceError
from twice.store import claim_errors, schema_rules
from twice.store.sql import outbox
from twice.store.sql.database import exact
from twice.store.sql.schema import bookkeeping
from twice.store.sql.schema.types import column_type, declared_type, fits, is_plain, read_schema

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

    from twice.model.names import TableName
    from twice.model.tables import Table
    from twice.store.sql.database import Database
    from twice.store.sql.schema.types import Column


def primary_key(table: Table) -> tuple[str, ...]:
    """Return the columns of the primary key: a business key is unique in its partition; none without a key."""
    if not table.key:
        return ()
    return tuple(dict.fromkeys((*table.partition_columns, *table.key)))


def prepare(database: Database, table: Table, schema: T.StructType) -> None:
    """Create the table for a result's schema, or add the result's new columns to it."""
    _check_columns(database, table, schema)
    with database.look() as connection:
        columns = database.columns(connection, table.id)
    if not columns:
        try:
            _create(database, table, schema)
        except TwiceError:
            # Another process may have been first: its table is checked like any other.
            with database.look() as connection:
                columns = database.columns(connection, table.id)
            if not columns:
                raise
    bookkeeping.ensure(database, table.id)
    if table.outbox is not None:
        outbox.check_columns(table, schema.names)
        outbox.ensure(database, table.id)
    with database.look() as connection:
        columns = database.columns(connection, table.id)
        if not columns:
            raise claim_errors.dropped(table)
        check_key(database, connection, table)
        entry = bookkeeping.read_entry(connection, bookkeeping.tables_of(database, table.id), table.id)
    _extend(database, table, schema, columns, read_schema(entry.columns) if entry and entry.columns else None)


def check_key(database: Database, connection: sa.Connection, table: Table) -> None:
    """Refuse a live table whose primary key is not the contract's."""
    wanted = primary_key(table)
    if not wanted:
        return
    schema = database.schema(table.id)
    found = sa.inspect(connection).get_pk_constraint(table.id.parts[-1], schema=schema)
    there = list(found["constrained_columns"])
    if sorted(there) == sorted(wanted):
        return
    relation = database.relation(table.id)
    add = f"ALTER TABLE {relation} ADD PRIMARY KEY ({', '.join(map(database.quoted, wanted))})"
    if there and found.get("name"):
        add = f"ALTER TABLE {relation} DROP CONSTRAINT {database.quoted(found['name'])}; {add}"
    if database.dialect == "sqlite":
        add = f"create the table again with PRIMARY KEY ({', '.join(map(database.quoted, wanted))})"
    raise SchemaRefused(
        f"{table.name} has {'the primary key ' + ', '.join(there) if there else 'no primary key'}, but its contract "
        f"says {', '.join(wanted)}: a row could be written twice",
        unchanged=schema_rules.AS_IT_WAS,
        next_step=f"{add}; or correct key= of the table",
    )


def _check_columns(database: Database, table: Table, schema: T.StructType) -> None:
    kinds = schema_rules.typed_columns(table, schema)
    for name, kind in kinds.items():
        try:
            declared_type(kind, database.dialect)
        except SchemaRefused as refused:
            raise SchemaRefused(
                f"{table.name}: column {name}: {refused.message}",
                unchanged=refused.unchanged,
                next_step=refused.next_step,
            ) from None
        if database.dialect == "postgres" and len(name.encode()) > 63:
            raise SchemaRefused(
                f"{table.name}: column {name} has a name of more than 63 bytes, which Postgres would cut off",
                unchanged=schema_rules.AS_IT_WAS,
                next_step="give it a shorter name in the step",
            )
    for name in primary_key(table):
        if not is_plain(kinds[name]):
            raise SchemaRefused(
                f"{table.name}: key column {name} is {kinds[name].simpleString()}, which no primary key can hold",
                next_step="use key_of(…) of it as the key",
            )


def _create(database: Database, table: Table, schema: T.StructType) -> None:
    key = primary_key(table)
    name = table.id.parts[-1]
    if database.dialect == "postgres" and len(name.encode()) > 63:
        raise StoreRefused(
            f"{table.name}: a name of more than 63 bytes would be cut off by Postgres",
            unchanged="nothing was changed",
            next_step="give the table a shorter name",
        )
    by_name = {field.name: field.dataType for field in schema.fields}
    columns = [
        sa.Column(exact(column), _type(database, kind, in_key=column in key), nullable=column not in key)
        for column, kind in by_name.items()
    ]
    constraints = [sa.PrimaryKeyConstraint(*key)] if key else []
    made = sa.Table(
        exact(name),
        sa.MetaData(),
        *columns,
        *constraints,
        schema=exact(database.schema(table.id)),
        comment=table.description or None,
    )
    found = bookkeeping.ensure_tables(database, table.id)
    with database.settled() as connection:
        made.create(connection, checkfirst=False)
        entry = bookkeeping.read_entry(connection, found, table.id)
        unpublished = {bookkeeping.UNPUBLISHED: "true"}
        if entry is None:
            bookkeeping.add_entry(connection, found, table.id, bookkeeping.Entry(0, 0, properties=unpublished))
        elif not entry.version:  # left by a run that lost the table while it was preparing to write it
            properties = {**entry.properties, **unpublished}
            bookkeeping.write_entry(connection, found, table.id, dataclasses.replace(entry, properties=properties))


def drop_unpublished(database: Database, table: TableName) -> None:
    """Drop a table that was created for attempts of which none succeeded, unless another one is at work in it."""
    found = bookkeeping.tables_of(database, table)
    if database.dialect == "other":  # where DROP TABLE ends the transaction, another attempt may open its claim first
        return
    try:
        with database.look() as connection:
            if not _is_unpublished(connection, found, table, lock=False):
                return
        with database.settled() as connection:
            if database.dialect == "postgres":
                connection.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
            if not _is_unpublished(connection, found, table, lock=True):
                return
            if database.dialect == "postgres":
                database.run(connection, f"LOCK TABLE {database.relation(table)} IN ACCESS EXCLUSIVE MODE")
            live = database.table(table, database.columns(connection, table))
            if connection.execute(sa.select(sa.literal(1)).select_from(live).limit(1)).first() is None:
                database.run(connection, f"DROP TABLE {database.relation(table)}")
                bookkeeping.drop_entry(connection, found, table)
    except TwiceError:  # in use by a reader or by a view: an empty table is harmless
        return


def _is_unpublished(
    connection: sa.Connection, found: bookkeeping.BookkeepingTables, table: TableName, *, lock: bool
) -> bool:
    entry = bookkeeping.read_entry(connection, found, table, lock=lock)
    if entry is None or entry.version or bookkeeping.UNPUBLISHED not in entry.properties:
        return False
    return not bookkeeping.open_tokens(connection, found, table)


def _type(database: Database, kind: T.DataType, *, in_key: bool) -> TypeEngine[Any]:
    if database.dialect == "other" and in_key and isinstance(kind, T.StringType):
        return sa.String(255)  # many databases index no text without a length
    return column_type(kind, database.dialect)


def _extend(
    database: Database,
    table: Table,
    schema: T.StructType,
    columns: tuple[Column, ...],
    published: T.StructType | None,
) -> None:
    relation = database.relation(table.id)
    there = {column.name: column for column in columns}
    here = {field.name: plain(field.dataType) for field in schema.fields}
    before = {field.name: field.dataType for field in published.fields} if published else {}
    if gone := [name for name in before if name not in here and name in there]:
        drop = "; ".join(f"ALTER TABLE {relation} DROP COLUMN {database.quoted(name)}" for name in gone)
        raise schema_rules.columns_gone(table, gone, f"{drop}, or keep the column in the step")
    for name, kind in here.items():
        was = before.get(name)
        if (
            name in there
            and was is not None
            and plain(was) != kind
            and not _only_wider(was, kind, database, there[name])
        ):
            raise _other_type(database, table, name, was.simpleString(), kind)
        if name in there and not fits(there[name].declared, kind, database.dialect):
            raise _other_type(database, table, name, there[name].declared, kind)
    new = [name for name in here if name not in there]
    for name in new:
        spec = declared_type(here[name], database.dialect)
        try:
            with database.settled() as connection:
                database.run(connection, f"ALTER TABLE {relation} ADD COLUMN {database.quoted(name)} {spec}")
        except TwiceError:
            # A run of another scope may have added the same column at this moment.
            with database.look() as connection:
                now = {column.name: column for column in database.columns(connection, table.id)}
            if name not in now or not fits(now[name].declared, here[name], database.dialect):
                raise


def _only_wider(was: T.DataType, kind: T.DataType, database: Database, column: Column) -> bool:
    """Return whether the column was widened by hand to hold what the step makes now."""
    old = declared_type(was, database.dialect)
    return (
        fits(column.declared, kind, database.dialect)
        and fits(declared_type(kind, database.dialect), was, database.dialect)
        and old != column.declared
    )


def _other_type(database: Database, table: Table, name: str, found: str, kind: T.DataType) -> SchemaRefused:
    wanted = declared_type(kind, database.dialect)
    change = (
        f"ALTER TABLE {database.relation(table.id)} ALTER COLUMN {database.quoted(name)} TYPE {wanted}"
        if database.dialect == "postgres"
        else f"create the column again as {wanted}"
    )
    return schema_rules.other_type(table, name, found, kind, f"cast it in the step, or {change}")
