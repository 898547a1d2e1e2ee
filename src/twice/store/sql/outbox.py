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
from twice.store.sql import places
from twice.store.sql.database import exact

if TYPE_CHECKING:
    from twice.model.names import TableName
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.store.sql.database import Database
    from twice.store.sql.statements import Move

NAME = "twice_outbox"
PENDING, SENT, DEAD, SKIPPED = "pending", "sent", "dead", "skipped"
STATES = (PENDING, SENT, DEAD, SKIPPED)
# What stands in the way of later messages about the same row.
UNSENT = (PENDING, DEAD)
_BEFORE = "twice_before"
# A function of Postgres takes 100 arguments: a name and a value each.
_COLUMNS_AT_ONCE = 40
_BETWEEN = "\x1f"


def outbox(database: Database, table: TableName) -> sa.Table:
    """Describe the outbox beside a table."""
    found = sa.Table(
        NAME,
        sa.MetaData(),
        sa.Column("seq", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
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
    unsent = found.c.state.in_([sa.literal_column(f"'{state}'") for state in UNSENT])
    sa.Index("twice_outbox_unsent", found.c.table_name, found.c.key, found.c.seq, postgresql_where=unsent)
    sa.Index("twice_outbox_ended", found.c.state, found.c.changed_at)
    return found


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


class Changes:
    """What a publish changes: the rows that it may touch are put aside before, and compared after."""

    def __init__(self, connection: sa.Connection, database: Database, target: Target, move: Move) -> None:
        self._database, self._table, self._move = database, target.table, move
        live = move.target
        self._before = live.to_metadata(sa.MetaData(), schema=exact("pg_temp"), name=_BEFORE)
        self._key = move.key
        names = [column.name for column in live.columns]
        self._columns = _carried(self._table, names)
        self._connection = connection

    def put_aside(self, touched: sa.ColumnElement[bool]) -> None:
        """Copy the rows that the publish may touch, for the length of the transaction."""
        self._touched = touched
        relation = self._database.relation(self._table.id)
        self._database.run(self._connection, f"CREATE TEMP TABLE {_BEFORE} (LIKE {relation}) ON COMMIT DROP")
        live = self._move.target
        rows = sa.select(*live.columns).where(touched)
        self._connection.execute(self._before.insert().from_select(list(self._before.columns), rows))

    def write(self, version: int) -> int:
        """Write a message for each row that is new, different or gone; return how many."""
        live, before = self._move.target, self._before
        same = sa.and_(*(self._of(live, name) == self._of(before, name) for name in self._key))
        differs = [self._move.distinct(self._of(live, name), self._of(before, name)) for name in self._columns]
        new = self._of(before, self._key[0]).is_(None)
        upserts = (
            self._messages("upsert", live, version)
            .select_from(live.outerjoin(before, same))
            .where(self._touched, sa.or_(new, *differs))
        )
        gone = (
            self._messages("delete", before, version)
            .select_from(before.outerjoin(live, same))
            .where(self._of(live, self._key[0]).is_(None))
        )
        found, written = outbox(self._database, self._table.id), 0
        for query in (gone, upserts):
            insert = found.insert().from_select(["id", "table_name", "key", "change", "payload"], query)
            done = self._connection.execute(insert, execution_options={"preserve_rowcount": True})
            written += int(done.rowcount)
        return written

    def _messages(self, change: str, rows: sa.Table, version: int) -> sa.Select[Any]:
        name = str(self._table.id)
        key = _as_json(rows, self._key)
        payload = _as_json(rows, self._columns) if change == "upsert" else sa.cast(sa.null(), JSONB)
        text = sa.func.concat_ws(_BETWEEN, name, str(version), change, sa.cast(key, sa.Text), sa.cast(payload, sa.Text))
        digest = sa.func.encode(sa.func.sha256(sa.func.convert_to(text, "UTF8")), "hex")
        mine = [self._of(rows, column) for column in self._key]
        return sa.select(sa.func.left(digest, 32), sa.literal(name), key, sa.literal(change), payload).order_by(*mine)

    def _of(self, table: sa.Table, name: str) -> sa.Column[Any]:
        return places.column(table, name)


def _carried(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that messages carry."""
    assert table.outbox is not None  # noqa: S101 - else there are no messages
    if absent := [name for name in table.outbox.columns if name not in names]:
        raise SchemaRefused(
            f"{table.name}: its outbox carries {', '.join(absent)}, which the table does not have",
            safe="nothing was published",
            to_go_on=f"name some of its columns: {', '.join(names)}",
        )
    hidden = {*FRAMEWORK_COLUMNS, *table.personal}
    return tuple(table.outbox.columns) or tuple(name for name in names if name not in hidden)


def _as_json(rows: sa.Table, names: Sequence[str]) -> sa.ColumnElement[Any]:
    found: sa.ColumnElement[Any] | None = None
    for start in range(0, len(names), _COLUMNS_AT_ONCE):
        some = names[start : start + _COLUMNS_AT_ONCE]
        pairs = [part for name in some for part in (sa.cast(name, sa.Text), places.column(rows, name))]
        piece = sa.func.jsonb_build_object(*pairs, type_=JSONB)
        found = piece if found is None else found.op("||", return_type=JSONB())(piece)
    assert found is not None  # noqa: S101 - a table has columns
    return found
