"""Fingerprints of live partitions, so that every change by hand is noticed.

Postgres: the number of rows and a sum over their `xmin`, the transaction that wrote each. Every insert and
update gives a row a new one, a delete takes one away; freezing keeps it. Rows that were dumped and restored
look touched, which costs a comparison and nothing else. Other databases: a sum over a hash of each row, which
knows no order and counts duplicates. SQLite adds it up itself, through a function of ours, and is queried before its
one lock is taken; of the other databases every row is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twice.store.sql.schema.conditions import column, decoded, in_partitions

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target
    from twice.store.sql.database import Database

_MODULUS = 2**128
_ROWS_AT_ONCE = 10_000
# A function of SQLite accepts at most this many arguments, in every build.
_ARGUMENTS = 100
EMPTY = "0:0"


def live(
    connection: sa.Connection,
    database: Database,
    table: sa.Table,
    target: Target,
    partitions: Sequence[Scope],
    where: sa.ColumnElement[bool] | None = None,
) -> dict[Scope, str]:
    """Fingerprint partitions as they are now: "rows:sum" each; `where`: of some of their rows."""
    if target.by_key:
        return dict.fromkeys(partitions, EMPTY)
    if database.dialect == "postgres":
        return _by_transaction(connection, table, target, partitions)
    inside = in_partitions(table, target, partitions, database.dialect)
    inside = sa.and_(inside, where) if where is not None else inside
    if database.dialect == "sqlite" and len(table.columns) < _ARGUMENTS:
        return _by_function(connection, table, target, partitions, inside)
    return by_content(connection, database, table, target, partitions, inside)


def added(before: Mapping[Scope, str], gone: Mapping[Scope, str], new: Mapping[Scope, str]) -> dict[Scope, str]:
    """Fingerprint partitions by content after some rows were removed and others added."""
    found = {}
    for partition, text in before.items():
        rows, total = _read(text)
        for sign, change in ((-1, gone.get(partition, EMPTY)), (1, new.get(partition, EMPTY))):
            count, marks = _read(change)
            rows, total = rows + sign * count, total + sign * marks
        found[partition] = _text(rows, total)
    return found


class Look:
    """What a target's partitions hold, found out before the one lock of a SQLite database is taken.

    It is good as long as no other connection commits to the database, which SQLite itself reports.
    """

    def __init__(self, database: Database, target: Target) -> None:
        self._database, self._target = database, target
        self._seen: dict[Scope, str] = {}
        self._version: int | None = None

    def before(self, connection: sa.Connection) -> None:
        """Look without a lock."""
        self._seen, self._version = self._live(connection), None
        self._version = _commits(connection)

    def holds(self, connection: sa.Connection) -> bool:
        """Return whether nothing was committed since the look."""
        return self._version is not None and self._version == _commits(connection)

    def now(self, connection: sa.Connection) -> dict[Scope, str]:
        """Return what the partitions hold within a transaction that writes."""
        if self.holds(connection):
            return self._seen
        return self._live(connection)

    def _live(self, connection: sa.Connection) -> dict[Scope, str]:
        columns = self._database.columns(connection, self._target.table.id)
        if not columns:
            return dict.fromkeys(self._target.partitions, EMPTY)
        table = self._database.table(self._target.table.id, columns)
        return live(connection, self._database, table, self._target, self._target.partitions)


class Marks:
    """The function `twice_marks` of SQLite: adds up rows by their place, which comes first."""

    def __init__(self) -> None:
        self._found: dict[object, list[int]] = {}

    def step(self, place: object, *row: object) -> None:
        """Add a row."""
        sums = self._found.setdefault(place, [0, 0])
        sums[0] += 1
        sums[1] += _mark(row)

    def finalize(self) -> str:
        """Return places with their rows and sums, as JSON."""
        return json.dumps([[place, rows, f"{total % _MODULUS:x}"] for place, (rows, total) in self._found.items()])


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


def _by_function(
    connection: sa.Connection,
    table: sa.Table,
    target: Target,
    partitions: Sequence[Scope],
    inside: sa.ColumnElement[bool],
) -> dict[Scope, str]:
    place: sa.ColumnElement[Any] = column(table, target.table.partition.column) if target.table.partition else sa.null()
    marks: sa.ColumnElement[str] = sa.func.twice_marks(place, *table.columns)
    text = connection.execute(sa.select(marks).select_from(table).where(inside)).scalar_one()
    found = dict.fromkeys(partitions, EMPTY)
    fixed = dict(target.scope.dimensions)
    for value, rows, total in json.loads(text or "[]"):
        # The condition left only rows that fit the scope's dimensions.
        dimensions = [fixed.get(name, "") for name in target.table.dimensions]
        partition = target.partition_of(decoded(value, "sqlite"), dimensions)
        if partition in found:
            count, sum_ = _read(found[partition])
            found[partition] = _text(count + rows, sum_ + int(total, 16))
    return found


def by_content(
    connection: sa.Connection,
    database: Database,
    table: sa.Table,
    target: Target,
    partitions: Sequence[Scope],
    inside: sa.ColumnElement[bool],
) -> dict[Scope, str]:
    """Fingerprint partitions by reading every row."""
    query = sa.select(*table.columns).where(inside)
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


def _commits(connection: sa.Connection) -> int:
    """Return a number that changes when another connection has committed."""
    return int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())


def _read(text: str) -> tuple[int, int]:
    rows, _, total = text.partition(":")
    return int(rows), int(total, 16)


def _text(rows: int, total: int) -> str:
    return f"{rows}:{total % _MODULUS:x}"
