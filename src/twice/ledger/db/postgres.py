"""A ledger in a schema of a Postgres database: many hosts, the server's clock, safe behind a transaction-mode pooler.

Nothing outlives a transaction: no prepared statement, no setting, no lock that belongs to a connection.
"""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from twice.errors import EnvironmentProblem, LedgerError, UsageError
from twice.ledger.db.clock import Clock, ServerClock
from twice.ledger.db.database import BUSY_SECONDS, Database
from twice.ledger.db.postgres_problems import explain
from twice.redaction import redact

# Not "twice": Postgres would look there first for the tables of a user with that name.
SCHEMA = "twice_ledger"
_DRIVERS = ("postgres", "postgresql", "postgresql+psycopg")
# Seconds until a server that does not answer, or a client that is idle in a transaction, is given up.
_CONNECT_SECONDS = 10
_SILENT_SECONDS = 30
_IDLE_SECONDS = 20
_KEPT_SECONDS = 60

# For the transaction only. A commit that was acknowledged must survive the server's crash, or a token is given twice.
_READ_SETTINGS = sa.text(
    "SELECT set_config('search_path', :path, true), set_config('lock_timeout', :lock, true),"
    " set_config('transaction_read_only', 'on', true)"
)
_WRITE_SETTINGS = sa.text(
    "SELECT set_config('search_path', :path, true), set_config('lock_timeout', :lock, true),"
    " set_config('idle_in_transaction_session_timeout', :idle, true),"
    " CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
)


class PostgresDatabase(Database):
    """One schema of a Postgres database."""

    own = "a schema of its own: add ?schema=NAME to its URL in twice.toml"

    def __init__(self, url: sa.URL, busy_seconds: float = BUSY_SECONDS) -> None:
        if url.drivername not in _DRIVERS:
            raise UsageError(
                f"a ledger in Postgres is reached with psycopg, not as {url.drivername!r}",
                next_step="write postgresql://user@host/database in twice.toml",
            )
        self.schema = _schema_of(url)
        url = url.set(drivername="postgresql+psycopg").difference_update_query(["schema"])
        self._secrets = _secrets_of(url)
        shown = url.set(drivername="postgresql")
        if self.schema != SCHEMA:
            shown = shown.update_query_dict({"schema": self.schema})
        self.shown = self.place = redact(shown.render_as_string(hide_password=True))
        defaults = {
            "application_name": "twice",
            "connect_timeout": _CONNECT_SECONDS,
            "tcp_user_timeout": _SILENT_SECONDS * 1000,
        }
        given = {name: value for name, value in defaults.items() if name not in url.query}
        try:
            self.engine = sa.create_engine(
                url,
                # One connection is kept between transactions and checked before use; threads get their own.
                pool_size=1,
                max_overflow=-1,
                pool_pre_ping=True,
                pool_recycle=_KEPT_SECONDS,
                use_native_hstore=False,
                # A statement prepared on one of a pooler's connections is unknown on the next.
                connect_args={"prepare_threshold": None, "autocommit": False} | given,
            )
        except ImportError:
            raise EnvironmentProblem(
                f"the ledger {self.shown} needs psycopg, which is not installed",
                unchanged="nothing was run",
                next_step="pip install 'twice[postgres]'",
            ) from None
        _forget_after_fork(self.engine)
        self._settings = {
            "path": '"' + self.schema.replace('"', '""') + '"',
            "lock": f"{busy_seconds * 1000:.0f}",
            "idle": str(_IDLE_SECONDS * 1000),
        }

    def look(self, *, create: bool) -> bool:  # noqa: ARG002
        """Only the server knows."""
        return True

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One transaction that sees one state of the ledger, and makes no other transaction wait."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                connection.execute(_READ_SETTINGS, self._settings)
                yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction whose every statement sees what was committed before it, above all after a lock."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                connection.execute(_WRITE_SETTINGS, self._settings)
                yield connection

    snapshot = read

    def clock(self) -> Clock:
        """Use the server's clock: the clocks of machines differ."""
        return ServerClock(self.read)

    def software(self, connection: sa.Connection) -> str:
        version: Any = connection.exec_driver_sql("SHOW server_version").scalar_one()
        return f"Postgres {str(version).split(' ', maxsplit=1)[0]}"

    def tables(self, connection: sa.Connection) -> set[str]:
        may = sa.text("SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = :schema")
        if connection.scalar(may, {"schema": self.schema}) is False:
            # Without this right the server reports that the tables do not exist, which would be misleading.
            raise explain("42501", f"permission denied for schema {self.schema}", self.shown, self.schema)
        return set(sa.inspect(connection).get_table_names(schema=self.schema))

    def lock_for_migration(self, connection: sa.Connection) -> None:
        # An advisory lock, as there is no row yet; of the transaction, as a pooler hands the connection on.
        key = zlib.crc32(f"twice ledger {self.schema}".encode())
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
        if self.schema not in sa.inspect(connection).get_schema_names():
            connection.execute(sa.schema.CreateSchema(self.schema))

    def lock(self, connection: sa.Connection, *tables: sa.Table) -> None:
        names = ", ".join(table.name for table in tables)
        connection.execute(sa.text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))

    def continue_numbers(self, connection: sa.Connection, table: sa.Table) -> None:
        highest = sa.select(sa.func.max(table.c.id)).scalar_subquery()
        sequence = sa.func.pg_get_serial_sequence(table.name, "id")
        connection.execute(sa.select(sa.func.setval(sequence, sa.func.coalesce(highest, 0) + 1, False)))

    def tidy(self) -> None:
        """Every transaction sets what it needs."""

    def explain(self, error: sa.exc.DBAPIError) -> LedgerError:
        reason = str(error.orig).strip()
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        return explain(getattr(error.orig, "sqlstate", None), redact(reason), self.shown, self.schema)


def _schema_of(url: sa.URL) -> str:
    schema = url.query.get("schema", SCHEMA)
    if not isinstance(schema, str) or not 0 < len(schema.encode()) <= 63 or "\0" in schema or schema[:3] == "pg_":
        raise UsageError(
            "schema in the ledger's URL must be one name of at most 63 bytes that does not begin with pg_",
            next_step="write postgresql://user@host/database?schema=name in twice.toml",
        )
    return schema


def _forget_after_fork(engine: sa.Engine) -> None:
    """Leave a parent's connection to the parent."""
    found = weakref.ref(engine)

    def forget() -> None:
        if (mine := found()) is not None:
            mine.dispose(close=False)

    os.register_at_fork(after_in_child=forget)


def _secrets_of(url: sa.URL) -> list[str]:
    """List the secrets that must never be shown, decoded and as they are written in a URL."""
    values = [url.password, *(url.query.get(name) for name in ("password", "sslpassword"))]
    texts = [value for value in values if isinstance(value, str) and value]
    return sorted({text for value in texts for text in (value, quote(value, safe=""))}, key=len, reverse=True)
