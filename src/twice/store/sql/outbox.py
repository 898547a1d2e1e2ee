"""The outbox of a Postgres schema: messages about changed rows, written in the transaction that publishes them.

Nothing is sent here. A publish that is rolled back leaves no message, and one that lands leaves all of them: no
moment exists in which the table has a row and the outbox does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from twice.errors import SchemaRefused, TwiceError
from twice.model.framework import FRAMEWORK_COLUMNS
from twice.model.patterns import Merge
from twice.store.sql.database import exact
from twice.store.sql.schema import conditions

if TYPE_CHECKING:
    from twice.model.names import TableName
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.store.sql.database import Database
    from twice.store.sql.write.statements import Move

NAME = "twice_outbox"
PENDING, SENT, DEAD, SKIPPED = "pending", "sent", "dead", "skipped"
STATES = (PENDING, SENT, DEAD, SKIPPED)
# States that block later messages about the same row.
UNSENT = (PENDING, DEAD)
_BEFORE = "twice_before"
# A function of Postgres takes 100 arguments: a name and a value each.
_COLUMNS_AT_ONCE = 40
_BETWEEN = "\x1f"
# The same value is the same text, whatever the session is set to.
_TEXT_FORMS = (
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL IntervalStyle = 'iso_8601'",
)


def outbox(database: Database, table: TableName) -> sa.Table:
    """Describe the outbox beside a table."""
    found = sa.Table(
        NAME,
        sa.MetaData(),
        sa.Column("id", sa.String(32), primary_key=True),
        # Not indexed: with an index on it, the search for due messages would read all that were sent.
        sa.Column("seq", sa.BigInteger, sa.Identity(always=True), nullable=False),
        # Without schema and store: the outbox lies in the one, and the other is a name in twice.toml.
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("key", JSONB, nullable=False),
        sa.Column("change", sa.String(16), nullable=False),
        sa.Column("payload", JSONB),
        sa.Column("state", sa.String(16), nullable=False, server_default=PENDING),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("note", sa.Text, nullable=False, server_default=""),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=exact(database.schema(table)),
    )
    unsent, pending = (
        found.c.state.in_([sa.literal_column(f"'{state}'") for state in states]) for states in (UNSENT, (PENDING,))
    )
    # Keys of any length: an index of Postgres takes less than a page.
    sa.Index("twice_outbox_rows", found.c.table_name, key_mark(found), found.c.seq, postgresql_where=unsent)
    sa.Index("twice_outbox_due", found.c.table_name, found.c.seq, postgresql_where=pending)
    sa.Index("twice_outbox_ended", found.c.state, found.c.changed_at)
    return found


def key_mark(rows: sa.FromClause) -> sa.ColumnElement[str]:
    """Return the indexed value by which the messages of one row are found."""
    return sa.func.md5(sa.cast(rows.c.key, sa.Text))


def ensure(database: Database, table: TableName) -> None:
    """Create the outbox of a table's schema if it is missing; another process may do the same at this moment."""
    found = outbox(database, table)

    def is_there() -> bool:
        with database.look() as connection:
            return bool(sa.inspect(connection).has_table(NAME, schema=found.schema))

    if is_there():
        return
    try:
        with database.settled() as connection:
            found.create(connection, checkfirst=False)
    except TwiceError:
        if not is_there():
            raise


def check_columns(table: Table, names: Sequence[str]) -> None:
    """Refuse messages with columns that the table does not have."""
    assert table.outbox is not None  # noqa: S101 - else there are no messages
    if absent := [name for name in table.outbox.columns if name not in names]:
        raise SchemaRefused(
            f"{table.name}: its outbox carries {', '.join(absent)}, which the table does not have",
            unchanged="nothing was published",
            next_step=f"name some of its columns: {', '.join(names)}",
        )


class Changes:
    """What a publish changes: the rows that it may touch are put aside before, and compared after."""

    def __init__(self, connection: sa.Connection, database: Database, target: Target, move: Move) -> None:
        self._connection, self._database, self._table = connection, database, target.table
        self._live, self._key = move.target, move.key
        self._before = move.target.to_metadata(sa.MetaData(), schema=exact("pg_temp"), name=_BEFORE)
        self._columns = _carried(self._table, [column.name for column in move.target.columns])

    def put_aside(self, touched: sa.ColumnElement[bool]) -> None:
        """Copy the rows that the publish may touch, for the length of the transaction."""
        self._touched = touched
        run, relation = self._database.run, self._database.relation(self._table.id)
        for statement in _TEXT_FORMS:
            run(self._connection, statement)
        run(self._connection, f"CREATE TEMP TABLE {_BEFORE} (LIKE {relation}) ON COMMIT DROP")
        rows = sa.select(*self._live.columns).where(touched)
        self._connection.execute(self._before.insert().from_select(list(self._before.columns), rows))
        key = ", ".join(map(self._database.quoted, self._key))
        run(self._connection, f"CREATE INDEX ON pg_temp.{_BEFORE} ({key})")
        run(self._connection, f"ANALYZE pg_temp.{_BEFORE}")

    def write(self, version: int) -> int:
        """Write a message for each row that is new, different or gone; return how many."""
        live, before = self._live, self._before
        same = sa.and_(*(conditions.column(live, name) == conditions.column(before, name) for name in self._key))
        new = conditions.column(before, self._key[0]).is_(None)
        is_gone, was_gone = self._deleted(live), self._deleted(before)
        differs = sa.or_(
            _as_json(live, self._columns).is_distinct_from(_as_json(before, self._columns)),
            is_gone.is_distinct_from(was_gone),
        )
        changed = (
            self._messages(is_gone, live, version)
            .select_from(live.outerjoin(before, same))
            .where(self._touched, sa.or_(sa.and_(new, ~is_gone), sa.and_(~new, differs)))
        )
        removed = (
            self._messages(sa.true(), before, version)
            .select_from(before.outerjoin(live, same))
            .where(conditions.column(live, self._key[0]).is_(None), ~was_gone)
        )
        found, written = outbox(self._database, self._table.id), 0
        for query in (removed, changed):
            insert = found.insert().from_select(["id", "table_name", "key", "change", "payload"], query)
            done = self._connection.execute(insert, execution_options={"preserve_rowcount": True})
            written += int(done.rowcount)
        return written

    def _messages(self, gone: sa.ColumnElement[bool], rows: sa.Table, version: int) -> sa.Select[Any]:
        schema, name = self._database.schema(self._table.id) or "", self._table.id.parts[-1]
        key = _as_json(rows, self._key)
        change = sa.case((gone, "delete"), else_="upsert")
        payload = sa.case((gone, sa.cast(sa.null(), JSONB)), else_=_as_json(rows, self._columns))
        parts = (schema, name, str(version), change, sa.cast(key, sa.Text), sa.cast(payload, sa.Text))
        text = sa.func.concat_ws(_BETWEEN, *parts)
        digest = sa.func.encode(sa.func.sha256(sa.func.convert_to(text, "UTF8")), "hex")
        mine = [conditions.column(rows, column) for column in self._key]
        return sa.select(sa.func.left(digest, 32), sa.literal(name), key, change, payload).order_by(*mine)

    def _deleted(self, rows: sa.Table) -> sa.ColumnElement[bool]:
        """Return whether a row is marked as deleted; a merge keeps such rows."""
        write = self._table.write
        if not isinstance(write, Merge) or write.tombstone is None:
            return sa.false()
        return sa.func.coalesce(conditions.column(rows, write.tombstone), sa.false())


def _carried(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that messages carry."""
    check_columns(table, names)
    assert table.outbox is not None  # noqa: S101 - else there are no messages
    hidden = {name.lower() for name in (*FRAMEWORK_COLUMNS, *table.personal)}
    return tuple(table.outbox.columns) or tuple(name for name in names if name.lower() not in hidden)


def _as_json(rows: sa.Table, names: Sequence[str]) -> sa.ColumnElement[Any]:
    found: sa.ColumnElement[Any] = sa.func.jsonb_build_object(type_=JSONB)
    for start in range(0, len(names), _COLUMNS_AT_ONCE):
        columns = [conditions.column(rows, name) for name in names[start : start + _COLUMNS_AT_ONCE]]
        pairs = [part for column in columns for part in (sa.cast(column.name, sa.Text), _as_value(column))]
        piece = sa.func.jsonb_build_object(*pairs, type_=JSONB)
        found = piece if start == 0 else found.op("||", return_type=JSONB())(piece)
    return found


def _as_value(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    # A number of JSON is a double to most readers: decimals keep their digits as text.
    exact_number = str(getattr(column.type, "text", "")).startswith("numeric")
    return sa.cast(column, sa.Text) if exact_number else column
