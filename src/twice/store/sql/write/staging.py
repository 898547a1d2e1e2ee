"""Stage: rows go to a staging table of the claim's own, beside the target, out of sight of readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from pyspark.sql import functions as F

from twice.content.filters import scope_filter
from twice.content.rows import column as spark_column
from twice.errors import TransientError, TwiceError
from twice.failpoints import fail_point
from twice.store import claim_errors
from twice.store.protocol import StagedRows, Stray
from twice.store.sql.database import exact
from twice.store.sql.read import fingerprints
from twice.store.sql.schema import bookkeeping, conditions, tables
from twice.store.sql.schema.types import Column, Declared
from twice.store.sql.write import arrow, copying
from twice.store.sql.write import rows as encoding
from twice.store.sql.write.checkpoint_size import CheckpointSize, fitting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.model.scopes import Scope
    from twice.model.targets import Target
    from twice.store.sql.database import Database

_BATCH = 20_000
_NAMED = 5


@dataclass
class SqlStagedRows(StagedRows):
    """A staging table, what the scope looked like when it was made, and the rows as Spark holds them."""

    fingerprints: Mapping[Scope, str] = field(default_factory=dict)
    base_files: Mapping[Scope, str] = field(default_factory=dict)
    frames: list[DataFrame] = field(default_factory=list)
    counts: dict[Scope, int] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    schema: StructType | None = None
    replaces: bool = True
    insert_only: bool = False
    # The mark of the rows that the staged ones replace.
    instead_of: str = ""
    session: SparkSession | None = None

    @property
    def rows(self) -> DataFrame:
        """Everything that was staged."""
        found = self.frames[0]
        for frame in self.frames[1:]:
            found = found.unionByName(frame)
        return found

    def files(self) -> dict[Scope, str]:
        """Fingerprint the partitions as they are once the staged rows are published."""
        found = {}
        for partition in self.target.partitions:
            after = self.counts.get(partition, 0)
            if not self.replaces:
                after += fingerprints.rows_of(self.fingerprints[partition])
            found[partition] = f"token:{self.token}" if after else ""
        return found


def files_of(target: Target, live: Mapping[Scope, str], known: Mapping[Scope, tuple[int, str]]) -> dict[Scope, str]:
    """Name what each partition holds: the token that wrote it, or what was found there instead."""
    found = {}
    for partition in target.partitions:
        token, fingerprint = known.get(partition, (0, ""))
        text = live[partition]
        if not fingerprints.rows_of(text):
            found[partition] = ""
        else:
            found[partition] = f"token:{token}" if fingerprint == text else f"found:{text}"
    return found


def open_staging(database: Database, target: Target, token: int) -> SqlStagedRows:
    """Open the claim and create its staging table, in one transaction where the database can."""
    found, table = bookkeeping.tables_of(database, target.table.id), target.table.id
    look = fingerprints.Look(database, target)
    with database.settled(look) as connection:
        entry = bookkeeping.lock_entry(connection, found, table)  # from here on the table stays, and its claims wait
        state = bookkeeping.claim_state(connection, found, table, token, lock=True)
        if state is None:
            bookkeeping.put_claim(connection, found, table, token, "open")
        elif state[0] != "open":
            raise claim_errors.taken_over(target, token)
        columns = database.columns(connection, table)
        if not columns:
            raise claim_errors.dropped(target.table)
        # One of our own may be left from an answer that was lost.
        drop_stage(connection, database, target.table.id, token)
        _create_stage(connection, database, target, token, columns)
        live = look.now(connection)
        known = bookkeeping.known_partitions(connection, found, target)
    return SqlStagedRows(
        target,
        token,
        str(entry.version),
        fingerprints=live,
        base_files=files_of(target, live, known),
        columns=columns,
    )


def stage_table(database: Database, staged: SqlStagedRows) -> sa.Table:
    """Describe the staging table for statements."""
    return sa.Table(
        exact(bookkeeping.stage_name(staged.target.table.id, staged.token)),
        sa.MetaData(),
        *(sa.Column(exact(c.name), Declared(c.declared), key=f"c{i}") for i, c in enumerate(staged.columns)),
        schema=exact(database.schema(staged.target.table.id)),
    )


def drop_stage(connection: sa.Connection, database: Database, table: Any, token: int) -> None:
    """Drop a staging table if it exists."""
    name = database.quoted(database.schema(table), bookkeeping.stage_name(table, token))
    database.run(connection, f"DROP TABLE IF EXISTS {name}")


def write(database: Database, session: SparkSession, staged: SqlStagedRows, rows: DataFrame, *, first: bool) -> None:
    """Write rows into the staging table; the gates read what Spark holds of them."""
    held = rows.localCheckpoint()
    if first and staged.frames:
        with database.settled() as connection:
            connection.execute(stage_table(database, staged).delete())
        staged.frames.clear()
    _load(database, session, staged, held)
    staged.frames.append(held)
    staged.schema = held.schema
    look(database, staged)


def write_changes(
    database: Database, session: SparkSession, staged: SqlStagedRows, changes: DataFrame, *, insert_only: bool
) -> None:
    """Write the rows that change the table into the staging table."""
    staged.replaces, staged.insert_only = False, insert_only
    write(database, session, staged, changes, first=True)
    staged.written = sum(staged.counts.values())


def staged(staged: SqlStagedRows, before: DataFrame | None) -> DataFrame:
    """Return the scope as it would be after the publish; `before` is the scope as it is, for changes by key."""
    changes = staged.rows.where(scope_filter(staged.target))
    if staged.replaces or before is None:
        return changes
    key = tables.primary_key(staged.target.table)
    new = changes.select(*(spark_column(name).alias(f"_twice_k{i}") for i, name in enumerate(key)))
    same = F.lit(True)
    for i, name in enumerate(key):
        same = same & (spark_column(name) == F.col(f"_twice_k{i}"))
    kept = before.where(scope_filter(staged.target)).join(new, same, "left_anti")
    return kept.unionByName(changes, allowMissingColumns=True)


def stray_rows(staged: SqlStagedRows, limit: int) -> list[Mapping[str, object]]:
    """Return a few of the staged rows that lie outside the scope."""
    inside = scope_filter(staged.target)
    places_known = [spark_column(name).isNotNull() for name in staged.target.table.partition_columns]
    for known in places_known:
        inside = inside & known
    values = [staged.target.value(partition) for partition in staged.target.partitions]
    if staged.target.table.partition and all(value is not None for value in values):
        from twice.content.filters import partition_filter

        one = F.lit(False)
        for partition in staged.target.partitions:
            one = one | partition_filter(staged.target, partition)
        inside = inside & one
    outside = staged.rows.where(~F.coalesce(inside, F.lit(False))).limit(limit)
    return [row.asDict(recursive=True) for row in outside.collect()]


def _create_stage(
    connection: sa.Connection, database: Database, target: Target, token: int, columns: tuple[Column, ...]
) -> None:
    name = bookkeeping.stage_name(target.table.id, token)
    made = sa.Table(
        exact(name),
        sa.MetaData(),
        *(sa.Column(exact(column.name), Declared(column.declared)) for column in columns),
        schema=exact(database.schema(target.table.id)),
        prefixes=["UNLOGGED"] if database.dialect == "postgres" else [],
    )
    made.create(connection, checkfirst=False)


def _load(database: Database, session: SparkSession, staged: SqlStagedRows, rows: DataFrame) -> None:
    """Bring rows to the staging table; the database must have taken as many as Spark gave."""
    try:
        given, taken = (
            _copy(database, session, staged, rows)
            if database.dialect == "postgres"
            else _insert(database, session, staged, rows)
        )
    except TwiceError:
        _require_open(database, staged)
        raise
    if given != taken:
        raise TransientError(
            f"{staged.target.table.name}, {staged.target.scope}: Spark gave {given} rows, "
            f"but {taken} reached {database.shown}",
            unchanged="nothing was published",
            next_step="run it again",
        )


def _copy(database: Database, session: SparkSession, staged: SqlStagedRows, rows: DataFrame) -> tuple[int, int]:
    name = database.quoted(
        database.schema(staged.target.table.id), bookkeeping.stage_name(staged.target.table.id, staged.token)
    )
    columns = ", ".join(database.quoted(column) for column in rows.columns)
    statement = f"COPY {name} ({columns}) FROM STDIN WITH (FORMAT csv, ENCODING 'UTF8')"
    feed = arrow.csv_feed(session, rows, database.shown)
    return copying.copy(database, statement, feed.parts, lanes=2 if feed.is_large else 1)


def _insert(database: Database, session: SparkSession, staged: SqlStagedRows, rows: DataFrame) -> tuple[int, int]:
    given, taken = rows.count(), 0
    table = stage_table(database, staged)
    chosen = [conditions.column(table, name) for name in rows.columns]
    statement = table.insert().values({column: sa.bindparam(f"p{i}") for i, column in enumerate(chosen)})
    names = [f"p{i}" for i in range(len(chosen))]
    for batch in encoding.batches(fitting(rows, CheckpointSize.of(session, rows)), database.dialect, _BATCH):
        # A transaction for each batch: readers of an embedded database get their turn in between.
        with database.settled() as connection:
            connection.execute(statement, [dict(zip(names, row, strict=True)) for row in batch])
            fail_point("sql.loaded")
        taken += len(batch)
    return given, taken


def _require_open(database: Database, staged: SqlStagedRows) -> None:
    """Return the error of a lost claim, if that is why its staging table could not be written."""
    found = bookkeeping.tables_of(database, staged.target.table.id)
    try:
        with database.look() as connection:
            state = bookkeeping.claim_state(connection, found, staged.target.table.id, staged.token)
    except TwiceError:
        return
    if state is None or state[0] != "open":
        raise claim_errors.taken_over(staged.target, staged.token)


def look(database: Database, staged: SqlStagedRows) -> None:
    """Count what is staged by partition, and find the rows that lie outside the scope."""
    table, target = stage_table(database, staged), staged.target
    inside = conditions.in_scope(table, target, database.dialect)
    time = [conditions.column(table, target.table.partition.column)] if target.table.partition else []
    fixed = [dict(target.scope.dimensions).get(name, "") for name in target.table.dimensions]
    query = sa.select(sa.func.count(), *time).select_from(table).where(inside)
    counts: dict[Scope, int] = {}
    strays, names = 0, []
    with database.look() as connection:
        for row in connection.execute(query.group_by(*time) if time else query):
            value = conditions.decoded(row[1], database.dialect) if time else None
            partition = target.partition_of(value, fixed)
            if partition is not None:
                counts[partition] = counts.get(partition, 0) + row[0]
            elif row[0]:
                strays += row[0]
                names.append(f"{time[0].name}={row[1]}")
        outside = sa.case((inside, 1), else_=0) == 0  # true also where a null leaves it open
        if target.table.partition_columns and (
            rows := connection.execute(sa.select(sa.func.count()).select_from(table).where(outside)).scalar_one()
        ):
            strays += rows
            names += _places(connection, table, target, outside)
    staged.counts = counts
    staged.strays = [Stray(strays, tuple(sorted(names)[:_NAMED]), ())] if strays else []


def _places(connection: sa.Connection, table: sa.Table, target: Target, outside: sa.ColumnElement[bool]) -> list[str]:
    """Name some of the places of rows outside the scope, the same ones each time."""
    values = [conditions.column(table, name) for name in target.table.partition_columns]
    query = sa.select(*values).where(outside).distinct().order_by(*values).limit(_NAMED)
    return [
        ", ".join(f"{name}={value}" for name, value in zip(target.table.partition_columns, row, strict=True))
        for row in connection.execute(query)
    ]
