"""The inbox of a consumer: remembers which messages were applied, in the consumer's own transactions.

A relay that was killed sends its last messages again: a consumer must be able to drop those that it has applied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from twice.errors import DefinitionError, UsageError
from twice.model.durations import Duration

_MOST = 200
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
# psycopg: connected, and no transaction has begun.
_IDLE = 0


@dataclass(frozen=True)
class Inbox:
    """Drops messages that a consumer has applied.

    Works on a connection of SQLAlchemy, psycopg or sqlite3. Ask it inside the transaction that applies the message:
    the mark and the work are committed together, or neither.

        inbox = Inbox("billing")
        with connection.begin():
            if inbox.is_new(connection, message["id"]):
                apply(connection, message)
    """

    consumer: str
    table: str = "twice_inbox"

    def __post_init__(self) -> None:
        given: object = self.consumer
        if not isinstance(given, str) or not 0 < len(given) <= _MOST:
            raise DefinitionError(f"Inbox(consumer={self.consumer!r}) must be a name of up to {_MOST} characters")
        if not _PLAIN.fullmatch(str(self.table)):
            raise DefinitionError(f"Inbox(table={self.table!r}) must be a name of letters, digits and underscores")

    def create(self, connection: Any) -> None:
        """Create the inbox's table if it is missing; commit afterwards."""
        self._run(
            connection,
            f"CREATE TABLE IF NOT EXISTS {self.table} (consumer VARCHAR({_MOST}) NOT NULL, "
            f"id VARCHAR({_MOST}) NOT NULL, applied_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP, "
            "PRIMARY KEY (consumer, id))",
        )

    def is_new(self, connection: Any, message: str) -> bool:
        """Mark a message as applied; False if it already was. Waits while another consumer applies the same message."""
        given: object = message
        if not isinstance(given, str) or not 0 < len(given) <= _MOST:
            raise UsageError(f"a message's id must be a text of up to {_MOST} characters, got {message!r}")
        _require_transaction(connection)
        statement = f"INSERT INTO {self.table} (consumer, id) VALUES (?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
        return self._run(connection, statement, self.consumer, message) == 1

    def prune(self, connection: Any, older_than: Duration) -> int:
        """Forget messages that were applied long ago; longer than any outbox or queue keeps them. Return how many."""
        if not isinstance(older_than, Duration):
            raise UsageError(f"older_than={older_than!r} must be a duration such as days(90)")
        seconds = int((timedelta(days=older_than.days) + older_than.exact).total_seconds())
        before = (
            f"datetime('now', '-{seconds} seconds')"
            if _is_sqlite(connection)
            else f"CURRENT_TIMESTAMP - INTERVAL '{seconds} seconds'"
        )
        statement = f"DELETE FROM {self.table} WHERE consumer = ? AND applied_at < {before}"  # noqa: S608
        return self._run(connection, statement, self.consumer)

    def _run(self, connection: Any, statement: str, *values: str) -> int:
        """Run a statement on whatever kind of connection it is; return how many rows it touched."""
        if isinstance(connection, sa.Connection):
            names = [f"p{number}" for number, _ in enumerate(values)]
            for name in names:
                statement = statement.replace("?", f":{name}", 1)
            return int(connection.execute(sa.text(statement), dict(zip(names, values, strict=True))).rowcount)
        if not _is_sqlite(connection):
            statement = statement.replace("?", "%s")
        cursor = connection.cursor()
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def _is_sqlite(connection: Any) -> bool:
    return type(_raw(connection)).__module__.startswith("sqlite3")


def _raw(connection: Any) -> Any:
    """Return the driver's own connection."""
    return connection.connection.dbapi_connection if isinstance(connection, sa.Connection) else connection


def _require_transaction(connection: Any) -> None:
    """Refuse a connection that would commit the mark before the work is done."""
    raw = _raw(connection)
    if _is_sqlite(connection):
        by_itself = raw.isolation_level is None or getattr(raw, "autocommit", -1) is True
        commits = by_itself and not raw.in_transaction
    else:
        commits = bool(getattr(raw, "autocommit", False)) and raw.info.transaction_status == _IDLE
    if commits:
        raise UsageError(
            "this connection commits every statement: a crash would lose the message",
            unchanged="nothing was marked",
            next_step="mark and apply it in one transaction",
        )
