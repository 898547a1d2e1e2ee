"""What the store records beside its tables, in the same schema and in the same transactions.

`twice_tables` counts a table's versions and knows its highest token. `twice_claims` has the claims that are open,
published or fenced: a claim's row is the fence, because a publish needs its own row to be `open`. A claim that ends
by itself without a publish leaves no row. `twice_partitions` records which token wrote a partition last, and what the
partition looked like then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import sqlalchemy as sa

from twice.errors import Conflict, TwiceError
from twice.store.sql.database import exact

if TYPE_CHECKING:
    from twice.model.names import TableName
    from twice.model.scopes import Scope
    from twice.model.targets import Target
    from twice.store.sql.database import Database

_LONGEST = 190
# A property of a table that twice created and in which no attempt has succeeded yet.
UNPUBLISHED = "twice.unpublished"
_STAGE = "twice_stage_"
# Postgres cuts longer names off silently.
_NAME_BYTES = 63


@dataclass(frozen=True)
class BookkeepingTables:
    """The bookkeeping tables of one schema."""

    tables: sa.Table
    claims: sa.Table
    partitions: sa.Table


@dataclass(frozen=True)
class Entry:
    """What is recorded about one table."""

    token: int
    version: int
    columns: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


def tables_of(database: Database, table: TableName) -> BookkeepingTables:
    """Describe the bookkeeping tables beside a table."""
    metadata, schema = sa.MetaData(), exact(database.schema(table))
    name = sa.String(_LONGEST)

    def make(title: str, *columns: sa.Column[object]) -> sa.Table:
        return sa.Table(title, metadata, *columns, schema=schema)

    return BookkeepingTables(
        make(
            "twice_tables",
            sa.Column("table_name", name, primary_key=True),
            sa.Column("token", sa.BigInteger, nullable=False),
            sa.Column("version", sa.BigInteger, nullable=False),
            sa.Column("columns", sa.Text, nullable=False),
            sa.Column("properties", sa.Text, nullable=False),
        ),
        make(
            "twice_claims",
            sa.Column("table_name", name, primary_key=True),
            sa.Column("token", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("state", sa.String(20), nullable=False),
            sa.Column("version", sa.BigInteger),
            sa.Column("notes", sa.Text, nullable=False),
        ),
        make(
            "twice_partitions",
            sa.Column("table_name", name, primary_key=True),
            sa.Column("part", name, primary_key=True),
            sa.Column("token", sa.BigInteger, nullable=False),
            sa.Column("fingerprint", sa.String(_LONGEST), nullable=False),
        ),
    )


def ensure(database: Database, table: TableName) -> None:
    """Create the bookkeeping tables and the table's own row; another process may do the same at this moment."""
    found = ensure_tables(database, table)
    with database.look() as connection:
        if read_entry(connection, found, table) is not None:
            return
    try:
        with database.settled() as connection:
            add_entry(connection, found, table, Entry(0, 0))
    except TwiceError:
        with database.look() as connection:
            if read_entry(connection, found, table) is None:
                raise


def ensure_tables(database: Database, table: TableName) -> BookkeepingTables:
    """Create the bookkeeping tables of a table's schema where they are missing."""
    found = tables_of(database, table)
    for each in (found.tables, found.claims, found.partitions):
        with database.look() as connection:
            there = sa.inspect(connection).has_table(each.name, schema=each.schema)
        if not there:
            try:
                with database.settled() as connection:
                    each.create(connection, checkfirst=False)
            except TwiceError:
                with database.look() as connection:
                    if not sa.inspect(connection).has_table(each.name, schema=each.schema):
                        raise
    return found


def exist(connection: sa.Connection, found: BookkeepingTables) -> bool:
    """Return whether the bookkeeping tables exist."""
    return bool(sa.inspect(connection).has_table(found.claims.name, schema=found.claims.schema)) and bool(
        sa.inspect(connection).has_table(found.tables.name, schema=found.tables.schema)
    )


def read_entry(
    connection: sa.Connection, found: BookkeepingTables, table: TableName, *, lock: bool = False
) -> Entry | None:
    """Read a table's row; `lock` keeps every other claim of the table waiting until the transaction ends."""
    query = sa.select(found.tables).where(found.tables.c.table_name == _key(table))
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        return None
    return Entry(row.token, row.version, row.columns, json.loads(row.properties))


def lock_entry(connection: sa.Connection, found: BookkeepingTables, table: TableName) -> Entry:
    """Read and lock a table's row, which must exist."""
    entry = read_entry(connection, found, table, lock=True)
    if entry is None:
        raise Conflict(
            f"{table}: its row in twice_tables was removed while a run was preparing to write it",
            unchanged="nothing was published",
            next_step="run it again: the row is created again",
        )
    return entry


def write_entry(connection: sa.Connection, found: BookkeepingTables, table: TableName, entry: Entry) -> None:
    """Write a table's row."""
    connection.execute(
        found.tables.update()
        .where(found.tables.c.table_name == _key(table))
        .values(
            token=entry.token,
            version=entry.version,
            columns=entry.columns,
            properties=json.dumps(dict(entry.properties), sort_keys=True),
        )
    )


def add_entry(connection: sa.Connection, found: BookkeepingTables, table: TableName, entry: Entry) -> None:
    """Write a table's row for the first time."""
    connection.execute(
        found.tables.insert().values(
            table_name=_key(table),
            token=entry.token,
            version=entry.version,
            columns=entry.columns,
            properties=json.dumps(dict(entry.properties), sort_keys=True),
        )
    )


def drop_entry(connection: sa.Connection, found: BookkeepingTables, table: TableName) -> None:
    """Remove the row of a table that goes before anything was published in it; claims that were fenced stay so."""
    connection.execute(found.tables.delete().where(found.tables.c.table_name == _key(table)))


def forget(connection: sa.Connection, found: BookkeepingTables, table: TableName) -> None:
    """Remove everything that is recorded about a table that is gone."""
    for each in (found.partitions, found.claims, found.tables):
        connection.execute(each.delete().where(each.c.table_name == _key(table)))


def claim_state(
    connection: sa.Connection, found: BookkeepingTables, table: TableName, token: int, *, lock: bool = False
) -> tuple[str, int | None] | None:
    """Return the state of a claim and the version that it published; wait for a transaction in doubt."""
    query = sa.select(found.claims.c.state, found.claims.c.version).where(*_claim(found, table, token))
    row = connection.execute(query.with_for_update() if lock else query).first()
    return (row.state, row.version) if row is not None else None


def put_claim(connection: sa.Connection, found: BookkeepingTables, table: TableName, token: int, state: str) -> None:
    """Record a claim for the first time."""
    connection.execute(
        found.claims.insert().values(table_name=_key(table), token=token, state=state, version=None, notes="{}")
    )


def end_claim(
    connection: sa.Connection,
    found: BookkeepingTables,
    table: TableName,
    token: int,
    state: str,
    *,
    version: int | None = None,
    notes: Mapping[str, str] | None = None,
) -> bool:
    """End an open claim; False if it was not open."""
    done = connection.execute(
        found.claims.update()
        .where(*_claim(found, table, token), found.claims.c.state == "open")
        .values(state=state, version=version, notes=json.dumps(dict(notes or {}), sort_keys=True))
    )
    return done.rowcount == 1


def drop_claim(connection: sa.Connection, found: BookkeepingTables, table: TableName, token: int) -> bool:
    """Remove an open claim that published nothing; False if it was not open. Without its row it cannot publish."""
    done = connection.execute(found.claims.delete().where(*_claim(found, table, token), found.claims.c.state == "open"))
    return done.rowcount == 1


def highest_token(connection: sa.Connection, found: BookkeepingTables, table: TableName) -> int:
    """Return the highest token among a table's claims; 0 if there are none."""
    query = sa.select(sa.func.max(found.claims.c.token)).where(found.claims.c.table_name == _key(table))
    return int(connection.execute(query).scalar() or 0)


def open_tokens(connection: sa.Connection, found: BookkeepingTables, table: TableName) -> list[int]:
    """List the tokens of a table's open claims."""
    query = sa.select(found.claims.c.token).where(
        found.claims.c.table_name == _key(table), found.claims.c.state == "open"
    )
    return [row.token for row in connection.execute(query)]


def known_partitions(
    connection: sa.Connection, found: BookkeepingTables, target: Target
) -> dict[Scope, tuple[int, str]]:
    """Return which token wrote each partition last, and its fingerprint then."""
    by_name = {part(target, partition): partition for partition in target.partitions}
    query = sa.select(found.partitions).where(found.partitions.c.table_name == _key(target.table.id))
    if len(by_name) <= 500:
        query = query.where(found.partitions.c.part.in_(list(by_name)))
    rows = connection.execute(query).all()
    return {by_name[row.part]: (row.token, row.fingerprint) for row in rows if row.part in by_name}


def write_partitions(
    connection: sa.Connection, found: BookkeepingTables, target: Target, token: int, fingerprints: Mapping[Scope, str]
) -> None:
    """Record the fence rows of the partitions that a publish changed."""
    rows = [
        {"table_name": _key(target.table.id), "part": part(target, partition), "token": token, "fingerprint": text}
        for partition, text in fingerprints.items()
    ]
    for row in rows:
        connection.execute(
            found.partitions.delete().where(
                found.partitions.c.table_name == row["table_name"], found.partitions.c.part == row["part"]
            )
        )
    if rows:
        connection.execute(found.partitions.insert(), rows)


def part(target: Target, partition: Scope) -> str:
    """Name a partition of a table in the bookkeeping tables."""
    value = target.value(partition)
    text = json.dumps([value.isoformat() if value is not None else None, dict(partition.dimensions)], sort_keys=True)
    return _short(text)


def stage_name(table: TableName, token: int) -> str:
    """Name the staging table of a claim, within the length of name that a database accepts."""
    name = f"{_STAGE}{token}_{table.parts[-1]}"
    if len(name.encode()) <= _NAME_BYTES:
        return name
    mark = sha256(table.parts[-1].encode()).hexdigest()[:10]
    start = f"{_STAGE}{token}_{table.parts[-1]}".encode()[: _NAME_BYTES - 11].decode(errors="ignore")
    return f"{start}_{mark}"


def stage_tokens(connection: sa.Connection, table: TableName, schema: str | None) -> list[int]:
    """List the tokens whose staging tables exist."""
    found = []
    for name in sa.inspect(connection).get_table_names(schema=schema):
        token = name.removeprefix(_STAGE).split("_")[0] if name.startswith(_STAGE) else ""
        if token.isdigit() and name == stage_name(table, int(token)):
            found.append(int(token))
    return found


def _claim(found: BookkeepingTables, table: TableName, token: int) -> Sequence[sa.ColumnElement[bool]]:
    return found.claims.c.table_name == _key(table), found.claims.c.token == token


def _key(table: TableName) -> str:
    return _short(table.parts[-1])


def _short(text: str) -> str:
    """Cut a text to what a key column holds, without making two texts one."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 65] + "#" + sha256(text.encode()).hexdigest()
