"""Publish: one transaction that moves staged rows into the table and ends the claim.

The claim's row is the fence. A run that takes a claim over sets its row to `fenced`; this transaction takes
the same row from `open` to `published`, so of the two only one can succeed. An error while committing is
unknown, not failed: the token is looked up on a new connection before anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa
from pyspark.sql import types as T

from twice.errors import Conflict, KeyViolation, TransientError, TwiceError
from twice.failpoints import fail_point
from twice.model.framework import WINDOW_COLUMN
from twice.store import claim_errors
from twice.store.sql import outbox
from twice.store.sql.database import CommitUnknown
from twice.store.sql.read import fingerprints
from twice.store.sql.schema import bookkeeping, conditions, tables
from twice.store.sql.schema.types import described, read_schema
from twice.store.sql.write import staging
from twice.store.sql.write.statements import Move
from twice.store.staged import Publication

if TYPE_CHECKING:
    from twice.model.names import TableName
    from twice.model.scopes import Scope
    from twice.store.sql.database import Database
    from twice.store.sql.write.staging import SqlStagedRows


# While rows are sorted other writers wait: a sort in memory is shorter. It ends with the transaction.
_ROOM_TO_SORT = sa.text(
    "SELECT set_config('work_mem', '64MB', true) WHERE pg_size_bytes(current_setting('work_mem')) < 64 * 1024 * 1024"
)


def publish(database: Database, publication: Publication[SqlStagedRows]) -> str:
    """Make the staged partitions visible; return the new version."""
    staged, look = publication.staged, fingerprints.Look(database, publication.staged.target)
    new = _new(database, publication)
    try:
        with database.change(look) as connection:
            version = _publish(connection, database, publication, look, new)
            fail_point("publish.ready")
    except CommitUnknown as unknown:
        version = _looked_up(database, staged, unknown, "published")
    if database.dialect == "other":
        drop_leftover(database, staged.target.table.id, staged.token)
    return str(version)


def discard(database: Database, staged: SqlStagedRows, remember: Mapping[str, str]) -> None:
    """End staged rows that change nothing: the scope must be as it was, the claim ours; no version is made."""
    table = staged.target.table.id
    found, look = bookkeeping.tables_of(database, table), fingerprints.Look(database, staged.target)
    try:
        with database.change(look) as connection:
            entry = bookkeeping.lock_entry(connection, found, table)
            if not bookkeeping.drop_claim(connection, found, table, staged.token):
                raise claim_errors.taken_over(staged.target, staged.token)
            _require_unchanged(connection, look, staged)
            properties = _properties(entry, remember)
            if properties != entry.properties:
                kept = bookkeeping.Entry(entry.token, entry.version, entry.columns, properties)
                bookkeeping.write_entry(connection, found, table, kept)
            if database.dialect != "other":
                staging.drop_stage(connection, database, table, staged.token)
    except CommitUnknown as unknown:
        _looked_up(database, staged, unknown, None)
    if database.dialect == "other":
        drop_leftover(database, table, staged.token)


def fence(database: Database, table: TableName, token: int, *, own: bool = False) -> str | None:
    """Stop a token for good; return the version that it published, if it already had.

    Our `own` claim loses its row; that of another holder becomes `fenced`, also for one that has not begun yet.
    """
    found = bookkeeping.tables_of(database, table)
    with database.look() as connection:
        if not bookkeeping.exist(connection, found):
            return None
    with database.settled() as connection:
        bookkeeping.read_entry(connection, found, table, lock=True)
        state = bookkeeping.claim_state(connection, found, table, token, lock=True)
        if own:
            bookkeeping.drop_claim(connection, found, table, token)
        elif state is None:
            # A holder that has not begun must not begin any more.
            bookkeeping.put_claim(connection, found, table, token, "fenced")
        elif state[0] == "open":
            bookkeeping.end_claim(connection, found, table, token, "fenced")
    drop_leftover(database, table, token)
    if state is not None and state[0] == "published":
        return str(state[1])
    if own:
        tables.drop_unpublished(database, table)
    return None


def drop_leftover(database: Database, table: TableName, token: int) -> None:
    """Drop a staging table; one that is still being written to is dropped by a later claim."""
    with database.look() as connection:
        if token not in bookkeeping.stage_tokens(connection, table, database.schema(table)):
            return
    try:
        with database.settled() as connection:
            if database.dialect == "postgres":
                connection.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
            staging.drop_stage(connection, database, table, token)
    except TransientError:
        return


def _new(database: Database, publication: Publication[SqlStagedRows]) -> dict[Scope, str]:
    """Fingerprint the staged rows of SQLite before its lock is taken; other databases read the table itself."""
    if database.dialect != "sqlite":
        return {}
    staged, table = publication.staged, publication.staged.target.table.id
    with database.look() as connection:
        if staged.token not in bookkeeping.stage_tokens(connection, table, database.schema(table)):
            return {}  # another run has taken over: the transaction finds out
        rows = staging.stage_table(database, staged)
        return fingerprints.live(connection, database, rows, staged.target, staged.target.partitions)


def _publish(
    connection: sa.Connection,
    database: Database,
    publication: Publication[SqlStagedRows],
    look: fingerprints.Look,
    new: Mapping[Scope, str],
) -> int:
    staged, target = publication.staged, publication.staged.target
    table = target.table.id
    found = bookkeeping.tables_of(database, table)
    assert staged.schema is not None  # noqa: S101 - what is published was staged
    entry = bookkeeping.lock_entry(connection, found, table)
    state = bookkeeping.claim_state(connection, found, table, staged.token, lock=True)
    if state is None or state[0] != "open":
        raise claim_errors.taken_over(target, staged.token)
    if database.dialect == "postgres":
        # Readers continue; another writer waits until this is over, so that what was checked stays true.
        database.run(connection, f"LOCK TABLE {database.relation(table)} IN SHARE ROW EXCLUSIVE MODE")
        connection.execute(_ROOM_TO_SORT)
    _require_unchanged(connection, look, staged)
    version = entry.version + 1
    with _messages(connection, database, publication, version):
        after = _move(connection, database, publication, new)
    bookkeeping.write_partitions(connection, found, target, staged.token, after)
    bookkeeping.write_entry(
        connection,
        found,
        table,
        bookkeeping.Entry(
            max(entry.token, staged.token),
            version,
            described(_known_after(connection, database, staged, entry)),
            _properties(entry, publication.remember),
        ),
    )
    ended = bookkeeping.end_claim(
        connection, found, table, staged.token, "published", version=version, notes=publication.notes
    )
    if not ended:
        raise claim_errors.taken_over(target, staged.token)
    if database.dialect != "other":
        staging.drop_stage(connection, database, table, staged.token)
    return version


@contextmanager
def _messages(
    connection: sa.Connection, database: Database, publication: Publication[SqlStagedRows], version: int
) -> Iterator[None]:
    """Write messages about the rows that the block changes, if the table has an outbox."""
    staged, target = publication.staged, publication.staged.target
    if target.table.outbox is None:
        yield
        return
    move = _move_of(connection, database, staged)
    touched = move.replaced()
    if staged.instead_of:
        touched = conditions.column(move.target, WINDOW_COLUMN) == staged.instead_of
    elif staged.replaces:
        touched = conditions.in_partitions(move.target, target, publication.partitions, database.dialect)
    changes = outbox.Changes(connection, database, target, move)
    changes.put_aside(touched)
    yield
    changes.write(version)


def _move_of(connection: sa.Connection, database: Database, staged: SqlStagedRows) -> Move:
    table = staged.target.table
    live = database.table(table.id, database.columns(connection, table.id))
    assert staged.schema is not None  # noqa: S101 - what is published was staged
    move = Move(live, staging.stage_table(database, staged), staged.schema.names, tables.primary_key(table))
    if database.dialect != "postgres" or not move.key or move.is_in_order(connection, sum(staged.counts.values())):
        return move
    return move.sorted()


def _move(
    connection: sa.Connection, database: Database, publication: Publication[SqlStagedRows], new: Mapping[Scope, str]
) -> dict[Scope, str]:
    """Bring the staged rows into the table; return what its partitions look like now."""
    staged, target, partitions = publication.staged, publication.staged.target, publication.partitions
    verbatim = _is_verbatim(connection, database, staged)
    move = _move_of(connection, database, staged)
    live, rows = move.target, move.source
    if not staged.replaces:
        return _move_by_key(connection, database, staged, move, new if verbatim else None)
    here = conditions.in_partitions(live, target, partitions, database.dialect)
    there = conditions.in_partitions(rows, target, partitions, database.dialect)
    wanted = sum(staged.counts.get(partition, 0) for partition in partitions)
    before = sum(fingerprints.rows_of(staged.fingerprints[partition]) for partition in partitions)
    postgres = database.dialect == "postgres"
    if postgres and move.key and _alike(before, wanted) and move.differs_little(connection, there, wanted):
        move.difference(connection, here, there)
        after = fingerprints.live(connection, database, live, target, partitions)
        _require_rows(staged, sum(map(fingerprints.rows_of, after.values())), wanted)
        return after
    deleted, taken = move.replace(connection, here, there)
    if database.dialect == "other" and deleted != before:
        # Other writers of the table are not locked out here: what they wrote since the check must be noticed.
        raise Conflict(
            f"{target.table.name}, {target.scope}: {deleted} rows were about to be replaced "
            f"where {before} had been seen",
            unchanged="nothing was published",
            next_step="run it again: the new run starts from what is there now",
        )
    _require_rows(staged, taken, wanted)
    if postgres:
        return fingerprints.written_now(
            connection, {partition: staged.counts.get(partition, 0) for partition in partitions}
        )
    if verbatim:
        return {partition: new[partition] for partition in partitions}
    return fingerprints.live(connection, database, live, target, partitions)


def _move_by_key(
    connection: sa.Connection, database: Database, staged: SqlStagedRows, move: Move, new: Mapping[Scope, str] | None
) -> dict[Scope, str]:
    """Bring rows in by their keys, or in the place of those with a mark; `new`: how they look, where that is known."""
    target, wanted = staged.target, sum(staged.counts.values())
    gone: dict[Scope, str] = {}
    if staged.instead_of:
        here = conditions.column(move.target, WINDOW_COLUMN) == staged.instead_of
        _, taken = move.replace(connection, here, sa.true())
        new = None
    elif database.dialect == "postgres":
        taken = move.insert_only(connection) if staged.insert_only else move.merge(connection, target.table)
    else:
        if new is not None and not staged.insert_only:
            gone = fingerprints.live(connection, database, move.target, target, target.partitions, move.replaced())
        taken = move.exchange(connection, delete=not staged.insert_only)
    if target.by_key and staged.insert_only and not staged.instead_of and taken < wanted:
        raise KeyViolation(
            f"{target.table.name}: {wanted - taken} keys of the batch are already in the table, from an earlier batch",
            unchanged="nothing was published",
            next_step="give dedup=Windowed(…) more time, or declare dedup=Write(…), which looks keys up in the table",
        )
    _require_rows(staged, taken, wanted)
    if new is not None:
        return fingerprints.added(staged.fingerprints, gone, new)
    return fingerprints.live(connection, database, move.target, target, target.partitions)


def _is_verbatim(connection: sa.Connection, database: Database, staged: SqlStagedRows) -> bool:
    """Return whether rows arrive in a table of SQLite as they were staged: no trigger or default changes them."""
    assert staged.schema is not None  # noqa: S101 - what is published was staged
    if database.dialect != "sqlite" or {column.name for column in staged.columns} != set(staged.schema.names):
        return False
    table = staged.target.table.id
    triggers = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(:name)")
    if connection.execute(triggers, {"name": table.parts[-1]}).first() is not None:
        return False
    return database.columns(connection, table) == staged.columns


def _known_after(
    connection: sa.Connection, database: Database, staged: SqlStagedRows, entry: bookkeeping.Entry
) -> T.StructType:
    """Return the table's columns after the publish: also those that newer code of another scope has added."""
    assert staged.schema is not None  # noqa: S101 - what is published was staged
    if not entry.columns:
        return staged.schema
    there = {column.name for column in database.columns(connection, staged.target.table.id)}
    kept = [
        field
        for field in read_schema(entry.columns).fields
        if field.name in there and field.name not in staged.schema.names
    ]
    return T.StructType([*staged.schema.fields, *kept])


def _properties(entry: bookkeeping.Entry, remember: Mapping[str, str]) -> dict[str, str]:
    """Return a table's properties after an attempt that succeeded."""
    return {name: value for name, value in {**entry.properties, **remember}.items() if name != bookkeeping.UNPUBLISHED}


def _alike(before: int, after: int) -> bool:
    """Return whether the numbers of rows leave it open that few rows differ."""
    return bool(before) and bool(after) and abs(before - after) <= 0.2 * max(before, after)


def _require_rows(staged: SqlStagedRows, taken: int, wanted: int) -> None:
    if taken != wanted:
        raise Conflict(
            f"{staged.target.table.name}, {staged.target.scope}: {wanted} rows are staged, but the table took {taken}: "
            "another writer writes the same keys, or a trigger or rule of the table changes what is inserted",
            unchanged="nothing was published",
            next_step="run it again; if it persists, check the table's triggers",
        )


def _require_unchanged(connection: sa.Connection, look: fingerprints.Look, staged: SqlStagedRows) -> None:
    """Refuse if another writer changed the scope since staging was opened."""
    target, now = staged.target, look.now(connection)
    if now != dict(staged.fingerprints):
        changed = [
            target.name(partition)
            for partition in target.partitions
            if now[partition] != staged.fingerprints[partition]
        ]
        raise claim_errors.changed(target, which=", ".join(changed[:3]))


def _looked_up(database: Database, staged: SqlStagedRows, unknown: CommitUnknown, wanted: str | None) -> int:
    """Find out on a new connection how a commit ended whose answer was lost; None: the claim's row was to go."""
    table = staged.target.table.id
    try:
        with database.settled() as connection:
            state = bookkeeping.claim_state(
                connection, bookkeeping.tables_of(database, table), table, staged.token, lock=True
            )
    except TwiceError as error:
        raise claim_errors.unanswered(staged, "the database") from error
    if (state[0] if state is not None else None) == wanted:
        return (state[1] if state is not None else None) or 0
    if state is None or state[0] != "open":
        raise claim_errors.taken_over(staged.target, staged.token)
    raise TransientError(unknown.problem.message, unchanged="nothing was published", next_step="run it again later")
