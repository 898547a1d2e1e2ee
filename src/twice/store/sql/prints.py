"""Fingerprints of live partitions, so that every change by hand is noticed.

Postgres: the number of rows and a sum over their `xmin`, the transaction that wrote each. Every insert and
update gives a row a new one, a delete takes one away; freezing keeps it. Rows that were dumped and restored
look touched, which costs a comparison and nothing else. Other databases: a sum over a hash of each row, which
knows no order and counts duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import sqlalchemy as sa

from twice.store.sql.places import column, decoded, in_partitions

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target
    from twice.store.sql.database import Database

_MODULUS = 2**128
_ROWS_AT_ONCE = 10_000
EMPTY = "0:0"


def live(
    connection: sa.Connection, database: Database, table: sa.Table, target: Target, partitions: Sequence[Scope]
) -> dict[Scope, str]:
    """Fingerprint partitions as they are now: "rows:sum" each."""
    if database.dialect == "postgres":
        return _by_transaction(connection, table, target, partitions)
    return _by_content(connection, database, table, target, partitions)


def rows_of(fingerprint: str) -> int:
    """Return how many rows a fingerprint is of."""
    return int(fingerprint.partition(":")[0])


def written_now(connection: sa.Connection, counts: Mapping[Scope, int]) -> dict[Scope, str]:
    """Fingerprint partitions whose every row this very transaction of Postgres has written."""
    mark = connection.execute(
        sa.text("SELECT hashtextextended((txid_current() % 4294967296)::text, 0)::numeric::text")
    ).scalar_one()
    return {partition: _text(rows, rows * int(mark)) for partition, rows in counts.items()}


def _by_transaction(
    connection: sa.Connection, table: sa.Table, target: Target, partitions: Sequence[Scope]
) -> dict[Scope, str]:
    place = [column(table, target.table.partition.column)] if target.table.partition else []
    writer: sa.ColumnElement[object] = sa.literal_column("xmin")
    # Few transactions wrote many rows: they are counted first and hashed once each.
    inner = (
        sa.select(*(each.label("place") for each in place), writer.label("writer"), sa.func.count().label("rows"))
        .select_from(table)
        .where(in_partitions(table, target, partitions, "postgres"))
        .group_by(*place, writer)
        .subquery()
    )
    mark = sa.func.hashtextextended(sa.cast(inner.c.writer, sa.Text), 0)
    query = sa.select(
        sa.func.sum(inner.c.rows).label("rows"),
        sa.func.sum(sa.cast(inner.c.rows, sa.Numeric) * mark).label("marks"),
        *([inner.c.place] if place else []),
    )
    found = dict.fromkeys(partitions, EMPTY)
    by_value: dict[object, Scope] = {target.value(partition): partition for partition in partitions}
    for row in connection.execute(query.group_by(inner.c.place) if place else query):
        partition = by_value.get(decoded(row.place, "postgres")) if place else target.partitions[0]
        if partition is not None and row.rows:
            found[partition] = _text(int(row.rows), int(row.marks))
    return found


def _by_content(
    connection: sa.Connection, database: Database, table: sa.Table, target: Target, partitions: Sequence[Scope]
) -> dict[Scope, str]:
    query = sa.select(*table.columns).where(in_partitions(table, target, partitions, database.dialect))
    names = [each.name for each in table.columns]
    places = [names.index(name) for name in target.table.partition_columns]
    rows, sums = dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 0)
    streamed = connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE})
    for row in streamed:
        partition = _partition(target, [row[place] for place in places], database)
        if partition in rows:
            rows[partition] += 1
            sums[partition] += _mark(tuple(row))
    return {partition: _text(rows[partition], sums[partition]) for partition in partitions}


def _mark(row: tuple[object, ...]) -> int:
    # A column that was added since is null in every row: it must not make them look touched.
    while row and row[-1] is None:
        row = row[:-1]
    return int.from_bytes(blake2b(repr(row).encode(errors="surrogatepass"), digest_size=16).digest(), "big")


def _partition(target: Target, values: Sequence[object], database: Database) -> Scope | None:
    found = [decoded(value, database.dialect) for value in values]
    if target.table.partition:
        return target.partition_of(found[0], found[1:])
    return target.partition_of(None, found)


def _text(rows: int, total: int) -> str:
    return f"{rows}:{total % _MODULUS:x}"
