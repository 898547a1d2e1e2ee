"""Reading tables of a SQL database with Spark, and finding out whether they changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timezone
from typing import TYPE_CHECKING
from uuid import uuid4
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.errors import Conflict, StoreRefused
from twice.model.content import INCOMPARABLE
from twice.model.grains import local_cut
from twice.model.scopes import Scope
from twice.model.tables import Table
from twice.model.targets import Target
from twice.store.sql.read import fingerprints, jdbc, splitting, transport
from twice.store.sql.read.snapshots import Snapshot, Snapshots
from twice.store.sql.read.splitting import Span
from twice.store.sql.read.transport import Transport
from twice.store.sql.schema import bookkeeping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.model.tables import Cut
    from twice.model.windows import Window
    from twice.store.sql.database import Database
    from twice.store.sql.schema.types import Column

_snapshots = Snapshots()
# A larger table is not read from end to end only to see whether it changed.
_WORTH_A_LOOK = 2_000_000
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True)
class Within:
    """What a read is cut to before it leaves the database: partitions, event time, dimensions."""

    cut: Cut
    dimensions: Mapping[str, str]
    zone: ZoneInfo


@dataclass(frozen=True)
class Base:
    """A scope as it was when staging was opened; rows to compare with the staged ones must be read as of then."""

    target: Target
    fingerprints: Mapping[Scope, str]


def read(
    database: Database,
    session: SparkSession,
    table: Table,
    version: str | None,
    within: Within | None = None,
    base: Base | None = None,
) -> DataFrame:
    """Read a table; on Postgres at one moment for the whole attempt, which must show the version, or the base."""
    if database.dialect == "other":
        return _as_spark_does(database, session, table, empty=version is None)
    with database.look() as connection:
        columns = database.columns(connection, table.id)
    route = transport.from_postgres if database.dialect == "postgres" else transport.from_sqlite
    wires = [route(column, database.quoted(column.name)) for column in columns]
    if version is None:
        return session.createDataFrame([], T.StructType([T.StructField(each.name, each.type) for each in wires]))
    if database.dialect == "postgres":
        snapshot = _moment(database, session, table, version, base)
        rows = _from_postgres(snapshot, session, table, wires, _cut(database, table, columns, within))
    else:
        rows = _from_sqlite(database, session, table, wires)
    return rows.select(*(each.decoded(f"c{i}").alias(each.name) for i, each in enumerate(wires)))


def _from_postgres(
    snapshot: Snapshot, session: SparkSession, table: Table, wires: list[Transport], cut: tuple[list[Span], list[str]]
) -> DataFrame:
    spans, conditions = cut
    database, options = snapshot.database, jdbc.options(snapshot.database)
    chosen = f"FROM {database.relation(table.id)}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
    with snapshot.look() as connection:
        tasks = session.sparkContext.defaultParallelism
        split = splitting.split(connection, database, table.id, chosen, spans[0] if spans else None, tasks)
    fields = [f"{each.query} AS c{i}" for i, each in enumerate(wires)] + (
        [f'{split.place} AS "place"'] if split else []
    )
    source = f"(SELECT {', '.join(fields)} {chosen}) AS twice"
    reader = session.read.options(**options, sessionInitStatement=snapshot.adopt, customSchema=_travelling(wires))
    if split:
        return reader.jdbc(options["url"], source, predicates=list(split.conditions))
    return reader.jdbc(options["url"], source)


def _from_sqlite(database: Database, session: SparkSession, table: Table, wires: list[Transport]) -> DataFrame:
    fields = ", ".join(f"{each.query} AS c{i}" for i, each in enumerate(wires))
    source = f"(SELECT {fields} FROM {database.relation(table.id)}) AS twice"  # noqa: S608 - names are quoted
    reader = session.read.format("jdbc").options(**jdbc.options(database), customSchema=_travelling(wires))
    # Spark would push down comparisons of texts that stand for numbers and times.
    return reader.options(dbtable=source, pushDownPredicate="false").load()


def _travelling(wires: list[Transport]) -> str:
    return ", ".join(f"c{i} {each.travels.simpleString()}" for i, each in enumerate(wires))


def version(database: Database, table: Table, session: SparkSession | None) -> str | None:
    """Name what a table that twice does not write holds now; a large one of Postgres has a new name every time."""
    if database.dialect == "postgres":
        with database.look() as connection:
            rows = _rows_if_told(connection, database, table)
            if rows is None or rows > _WORTH_A_LOOK:
                return f"moment:{connection.execute(sa.text('SELECT pg_current_snapshot()::text')).scalar_one()}"
    whole = Target.of(Table(table.name), Scope(None), _UTC)
    return files(database, whole, session)[whole.partitions[0]] or None


def files(database: Database, target: Target, session: SparkSession | None) -> Mapping[Scope, str]:
    """Fingerprint the partitions of a table that twice does not write.

    `session`: as its attempt reads them, where the database can keep a moment; None: as they are now.
    """
    with _looking(database, session) as connection:
        if database.dialect == "postgres" and _rows_if_told(connection, database, target.table) is None:
            return {partition: f"{INCOMPARABLE}{uuid4().hex}" for partition in target.partitions}
        return _files(connection, database, target)


def seen(database: Database, table: Table, event: Window, zone: ZoneInfo, session: SparkSession | None) -> str | None:
    """Fingerprint the rows of a window by event time; other databases than Postgres read the whole table."""
    if database.dialect != "postgres":
        with database.look() as connection:
            found = bookkeeping.tables_of(database, table.id)
            entry = (
                bookkeeping.read_entry(connection, found, table.id) if bookkeeping.exist(connection, found) else None
            )
        return f"version:{entry.version}" if entry is not None else version(database, table, session) or ""
    with _looking(database, session) as connection:
        columns = database.columns(connection, table.id)
        span = event_span(database, table, columns, event, zone)
        if span is None or _rows_if_told(connection, database, table) is None:
            return None
        query = (
            "SELECT coalesce(sum(rows), 0), coalesce(sum(rows * hashtextextended(writer, 0)::numeric), 0) FROM "  # noqa: S608 - quoted
            f"(SELECT xmin::text AS writer, count(*) AS rows FROM {database.relation(table.id)} "
            f"WHERE {span.condition} GROUP BY xmin) AS writers"
        )
        count, marks = connection.execute(splitting.verbatim(query)).one()
    return f"{int(count)}:{int(marks) % 2**128:x}"


def release(session: SparkSession) -> None:
    """Release the snapshots that a session's reads held."""
    _snapshots.release(session)


@contextmanager
def _looking(database: Database, session: SparkSession | None) -> Iterator[sa.Connection]:
    """Open a query at the snapshot that a session's reads hold; without a session, at the current moment."""
    if session is None or database.dialect != "postgres":
        with database.look() as connection:
            yield connection
        return
    snapshot = _snapshots.find(database, session)
    assert snapshot is not None  # noqa: S101 - any moment will do
    with snapshot.look() as connection:
        yield connection


def _moment(
    database: Database, session: SparkSession, table: Table, version: str, base: Base | None = None
) -> Snapshot:
    """Return a moment in which the table has the version; one that twice does not write has any.

    Of a base only the scope counts: other days may be published meanwhile, and an edit by hand makes no version.
    """
    found = bookkeeping.tables_of(database, table.id)

    def shows(snapshot: Snapshot) -> bool:
        with snapshot.look() as connection:
            if base is not None:
                live = database.table(table.id, database.columns(connection, table.id))
                now = fingerprints.live(connection, database, live, base.target, base.target.partitions)
                return now == dict(base.fingerprints)
            entry = (
                bookkeeping.read_entry(connection, found, table.id) if bookkeeping.exist(connection, found) else None
            )
        return entry is None or str(entry.version) == version

    snapshot = _snapshots.find(database, session, shows)
    if snapshot is None:
        raise Conflict(
            f"{table.name} was published by another run while this one was about to read its version {version}",
            unchanged="nothing was published",
            next_step="run it again: the new attempt reads what is there now",
        )
    return snapshot


def _rows_if_told(connection: sa.Connection, database: Database, table: Table) -> int | None:
    """Estimate the rows of a table of Postgres; None for a view, whose rows do not name their writer."""
    query = sa.text("SELECT relkind::text AS kind, reltuples AS rows FROM pg_class WHERE oid = to_regclass(:name)")
    found = connection.execute(query, {"name": database.relation(table.id)}).first()
    return int(found.rows) if found is not None and found.kind in {"r", "m", "p"} else None


def _files(connection: sa.Connection, database: Database, target: Target) -> dict[Scope, str]:
    columns = database.columns(connection, target.table.id)
    if not columns:
        return dict.fromkeys(target.partitions, "")
    absent = [name for name in target.table.partition_columns if name not in {column.name for column in columns}]
    if absent:
        raise StoreRefused(
            f"{target.table.name} has no column {absent[0]}, which its contract declares as partition or dimension",
            unchanged="nothing was changed",
            next_step="correct the table's contract",
        )
    live = fingerprints.live(connection, database, database.table(target.table.id, columns), target, target.partitions)
    return {partition: f"found:{text}" if fingerprints.rows_of(text) else "" for partition, text in live.items()}


def _cut(
    database: Database, table: Table, columns: tuple[Column, ...], within: Within | None
) -> tuple[list[Span], list[str]]:
    """Return in Postgres's syntax what a read is cut to: the spans of time, and all conditions."""
    if within is None:
        return [], []
    found: list[Span | None] = []
    if within.cut.partitions and table.partition:
        grain = table.partition.grain
        start, end = (grain.value(at, within.zone) for at in (within.cut.partitions.start, within.cut.partitions.end))
        kinds = {column.name: column.declared for column in columns}
        name = table.partition.column
        if kinds.get(name) == ("timestamp with time zone" if isinstance(start, datetime) else "date"):
            kind = "TIMESTAMPTZ" if isinstance(start, datetime) else "DATE"
            found.append(Span(database.quoted(name), start, end, kind))
    if within.cut.event:
        found.append(event_span(database, table, columns, within.cut.event, within.zone))
    spans = [span for span in found if span is not None]
    names = {column.name for column in columns}
    equal = [
        f"{database.quoted(name)} = {text_literal(value)}"
        for name, value in within.dimensions.items()
        if name in table.dimensions and name in names and "\0" not in value
    ]
    return spans, [*(span.condition for span in spans), *equal]


def event_span(
    database: Database, table: Table, columns: tuple[Column, ...], event: Window, zone: ZoneInfo
) -> Span | None:
    """Cut by event time as the engine does: an instant, a local time or a date; anything else is left to it."""
    declared = next((column.declared for column in columns if column.name == table.event_time), "").split("(")[0]
    place = database.quoted(table.event_time or "")
    local = [local_cut(moment, zone) for moment in (event.start, event.end)]
    if declared.startswith("timestamp") and declared.endswith("without time zone"):
        return Span(place, local[0], local[1], "TIMESTAMP")
    if declared.startswith("timestamp"):
        return Span(place, event.start.astimezone(timezone.utc), event.end.astimezone(timezone.utc), "TIMESTAMPTZ")
    if declared == "date" and all(moment.time() == time() for moment in local):
        return Span(place, local[0].date(), local[1].date(), "DATE")
    return None


def text_literal(value: str) -> str:
    """Quote a text for Postgres, whatever it holds and however the server reads backslashes."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _as_spark_does(database: Database, session: SparkSession, table: Table, *, empty: bool) -> DataFrame:
    """Read a further database by Spark's own mapping of types, over one connection."""
    options = jdbc.options(database) | {"preferTimestampNTZ": "true", "pushDownPredicate": "false"}
    rows = session.read.format("jdbc").options(**options).option("dbtable", database.relation(table.id)).load()
    return rows.where(F.lit(False)) if empty else rows
