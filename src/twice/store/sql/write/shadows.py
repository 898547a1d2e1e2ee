"""Shadows in a SQL database: a table of their own, filled by the database itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from twice.store.sql.schema import bookkeeping
from twice.store.sql.write import staging

if TYPE_CHECKING:
    from twice.model.names import TableName
    from twice.model.tables import Table
    from twice.store.sql.database import Database


def fork(database: Database, table: Table, shadow: Table) -> None:
    """Copy a table's columns, key and rows; the shadow of an absent table is created by its first run."""
    found = bookkeeping.tables_of(database, shadow.id)
    with database.look() as connection:
        columns = database.columns(connection, table.id)
        begun = database.columns(connection, shadow.id)
        there = bookkeeping.exist(connection, found)
        if not columns or (there and bookkeeping.read_entry(connection, found, shadow.id) is not None):
            return
        entry = bookkeeping.read_entry(connection, found, table.id) if there else None
        key = sa.inspect(connection).get_pk_constraint(table.id.parts[-1], schema=database.schema(table.id))
    if begun:  # an earlier copy was stopped, in a database that creates tables outside of transactions
        drop(database, shadow.id)
    relation = database.relation(shadow.id)
    names = [database.quoted(column.name) for column in columns]
    lines = [
        f"{name} {column.declared}{'' if column.nullable else ' NOT NULL'}"
        for name, column in zip(names, columns, strict=True)
    ]
    if key["constrained_columns"]:
        lines.append(f"PRIMARY KEY ({', '.join(map(database.quoted, key['constrained_columns']))})")
    bookkeeping.ensure_tables(database, shadow.id)
    with database.settled() as connection:
        database.run(connection, f"CREATE TABLE {relation} ({', '.join(lines)})")
        everything = ", ".join(names)
        database.run(
            connection,
            f"INSERT INTO {relation} ({everything}) SELECT {everything} FROM {database.relation(table.id)}",  # noqa: S608 - names are quoted
        )
        bookkeeping.add_entry(connection, found, shadow.id, entry or bookkeeping.Entry(0, 0))


def drop(database: Database, shadow: TableName) -> None:
    """Remove a shadow's table and everything that is recorded about it."""
    found = bookkeeping.tables_of(database, shadow)
    with database.settled() as connection:
        for token in bookkeeping.stage_tokens(connection, shadow, database.schema(shadow)):
            staging.drop_stage(connection, database, shadow, token)
        if database.columns(connection, shadow):
            database.run(connection, f"DROP TABLE {database.relation(shadow)}")
        if bookkeeping.exist(connection, found):
            bookkeeping.forget(connection, found, shadow)
