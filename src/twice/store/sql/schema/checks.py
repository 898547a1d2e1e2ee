"""What a run needs of a database, checked before anything is claimed: a real table, rights, no blocking keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twice.errors import StoreRefused
from twice.model.patterns import Overwrite, Whole
from twice.store.sql import outbox
from twice.store.sql.schema import tables

if TYPE_CHECKING:
    from twice.model.tables import Table
    from twice.store.sql.database import Database

_NOTHING = "nothing was changed"
_TEMPORARY = sa.text("SELECT has_database_privilege(current_database(), 'TEMPORARY')")


def check(database: Database, table: Table) -> None:
    """Refuse a live table, or a schema, that a run could not write."""
    with database.look() as connection:
        if database.dialect == "postgres":
            _check_postgres(database, connection, table)
        elif database.dialect == "sqlite":
            _check_sqlite(database, connection, table)
        else:
            _check_other(database, connection, table)


def _check_postgres(database: Database, connection: sa.Connection, table: Table) -> None:
    names = {"schema": database.schema(table.id), "name": table.id.parts[-1]}
    schema = connection.execute(_SCHEMA, names).first()
    who = connection.execute(sa.text("SELECT current_user")).scalar_one()
    quoted = database.quoted(names["schema"])
    if schema is None:
        raise StoreRefused(
            f"{table.name}: {database.shown} has no schema {names['schema']}",
            unchanged=_NOTHING,
            next_step=f"CREATE SCHEMA {quoted}, or correct the table's name",
        )
    missing = [right for right, has in (("USAGE", schema.usage), ("CREATE", schema.make)) if not has]
    if missing:
        raise _right(table, f"GRANT {', '.join(missing)} ON SCHEMA {quoted} TO {database.quoted(who)}")
    live = connection.execute(_RELATION, names).first()
    if live is None:
        return
    if live.kind not in {"r", "p"}:
        raise _view(table)
    # The bookkeeping beside it is written in the same transactions.
    for name in (
        names["name"],
        "twice_tables",
        "twice_claims",
        "twice_partitions",
        *([outbox.NAME] if table.outbox else []),
    ):
        found = live if name == names["name"] else connection.execute(_RELATION, {**names, "name": name}).first()
        missing = [right for right in _RIGHTS if found is not None and not getattr(found, right.lower())]
        if missing:
            relation = database.quoted(names["schema"], name)
            raise _right(table, f"GRANT {', '.join(missing)} ON {relation} TO {database.quoted(who)}")
    if table.outbox is not None and not connection.execute(_TEMPORARY).scalar_one():
        # The rows before a publish are put aside in a temporary table.
        name = database.quoted(str(connection.execute(sa.text("SELECT current_database()")).scalar_one()))
        raise _right(table, f"GRANT TEMPORARY ON DATABASE {name} TO {database.quoted(who)}")
    tables.check_key(database, connection, table)
    if isinstance(table.write, Overwrite | Whole):
        for key in connection.execute(_FOREIGN_KEYS, {"relation": live.oid}):
            raise _foreign_key(
                table,
                f"the foreign key {key.name} of {key.child}",
                f"ALTER TABLE {key.child} ALTER CONSTRAINT {database.quoted(key.name)} DEFERRABLE INITIALLY DEFERRED "
                "(for a key without ON DELETE action), or drop it",
            )


def _check_sqlite(database: Database, connection: sa.Connection, table: Table) -> None:
    name = table.id.parts[-1]
    database.schema(table.id)
    kind = connection.execute(sa.text("SELECT type FROM sqlite_master WHERE name = :name"), {"name": name}).scalar()
    if kind is None:
        return
    if kind != "table":
        raise _view(table)
    tables.check_key(database, connection, table)
    _check_spelling(database, connection, table)
    if isinstance(table.write, Overwrite | Whole):
        for child in connection.execute(_SQLITE_CHILDREN, {"name": name}):
            raise _foreign_key(
                table, f"a foreign key of {database.quoted(child.name)}", f"create {child.name} again without it"
            )


def _check_spelling(database: Database, connection: sa.Connection, table: Table) -> None:
    """Refuse times that another writer spelt in another way: scopes are compared as texts, and would not find them."""
    if table.partition is None:
        return
    place, length = database.quoted(table.partition.column), 32 if table.partition.grain.sub_day else 10
    odd = f"typeof({place}) <> 'text' OR length({place}) <> {length}"
    query = f"SELECT 1 FROM {database.relation(table.id)} WHERE {place} IS NOT NULL AND ({odd}) LIMIT 1"  # noqa: S608 - names are quoted
    if connection.execute(sa.text(query.replace(":", "\\:"))).first() is not None:
        wanted = "2026-04-25 10:00:00.000000+00:00" if table.partition.grain.sub_day else "2026-04-25"
        raise StoreRefused(
            f"{table.name}: some values of {table.partition.column} are not in the format that twice writes",
            unchanged=_NOTHING,
            next_step=f"update them to the form '{wanted}'",
        )


def _check_other(database: Database, connection: sa.Connection, table: Table) -> None:
    name, schema = table.id.parts[-1], database.schema(table.id)
    if name in sa.inspect(connection).get_view_names(schema=schema):
        raise _view(table)
    if sa.inspect(connection).has_table(name, schema=schema):
        tables.check_key(database, connection, table)


def _foreign_key(table: Table, what: str, next_step: str) -> StoreRefused:
    return StoreRefused(
        f"{table.name}: {what} refers to it, so its rows cannot be deleted and inserted again",
        unchanged=_NOTHING,
        next_step=next_step,
    )


def _right(table: Table, grant: str) -> StoreRefused:
    missing = grant.removeprefix("GRANT ").partition(" TO ")[0]
    return StoreRefused(
        f"{table.name}: the database user may not write it: {missing} is missing",
        unchanged=_NOTHING,
        next_step=grant,
    )


def _view(table: Table) -> StoreRefused:
    return StoreRefused(
        f"{table.name} is a view: a run writes tables",
        unchanged=_NOTHING,
        next_step="write the table below the view, or drop the view",
    )


_SCHEMA: Any = sa.text(
    "SELECT has_schema_privilege(oid, 'USAGE') AS usage, has_schema_privilege(oid, 'CREATE') AS make "
    "FROM pg_namespace WHERE nspname = :schema"
)
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_RELATION: Any = sa.text(
    "SELECT c.oid AS oid, c.relkind AS kind, "
    + "".join(f"has_table_privilege(c.oid, '{right}') AS \"{right.lower()}\", " for right in _RIGHTS)
    + "n.nspname AS schema "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :name"
)
# A key that is checked at the commit finds its row again, if the new rows have it.
_FOREIGN_KEYS: Any = sa.text(
    "SELECT conname AS name, conrelid::regclass::text AS child FROM pg_constraint "
    "WHERE contype = 'f' AND confrelid = :relation AND NOT (confdeltype = 'a' AND condeferrable AND condeferred) "
    "ORDER BY conname"
)
_SQLITE_CHILDREN: Any = sa.text(
    "SELECT m.name FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f "
    "WHERE m.type = 'table' AND lower(f.\"table\") = lower(:name) ORDER BY m.name"
)
