"""One SQL database: how to reach it, read it and change it in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from twice.errors import ConfigError, StoreRefused, TwiceError
from twice.store.sql import problems
from twice.store.sql.read.fingerprints import Marks
from twice.store.sql.schema.types import Column, Dialect

if TYPE_CHECKING:
    from twice.config import StoreConfig
    from twice.model.names import TableName
    from twice.store.sql.read.fingerprints import Look

# How long a statement waits for another transaction's lock before the attempt fails and is tried again.
_LOCK_SECONDS = 20
_LOOKS = 3
_CONNECT_SECONDS = 10
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
# A dead network must not block a run for hours: both ends of a connection are checked.
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}


class CommitUnknown(Exception):
    """The commit was sent and its answer was lost."""

    def __init__(self, problem: TwiceError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Database:
    """One database; a transaction keeps nothing in its connection, so that threads and poolers share nothing."""

    def __init__(self, name: str, url: sa.URL, lock_seconds: int = _LOCK_SECONDS) -> None:
        self.name = name
        self.url = url
        self.lock_seconds = lock_seconds
        backend = url.get_backend_name()
        self.dialect: Dialect = "postgres" if backend == "postgresql" else "sqlite" if backend == "sqlite" else "other"
        self.shown = f"store {name} ({url.render_as_string(hide_password=True).split('?')[0]})"
        self._secrets = tuple(filter(None, [url.password]))
        try:
            self.engine = sa.create_engine(url, **self._options())
        except (ImportError, sa.exc.NoSuchModuleError):
            package = "twice[postgres]" if self.dialect == "postgres" else f"the SQLAlchemy driver of {backend}"
            raise problems.missing_driver(self.shown, package) from None
        if self.dialect == "sqlite":
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
            sa.event.listen(self.engine, "begin", begin_sqlite)
        elif self.dialect == "postgres":
            sa.event.listen(self.engine, "begin", self._begin_postgres)

    def __repr__(self) -> str:
        return f"<Database {self.shown}>"

    def rest(self) -> None:
        """Close the idle connection."""
        self.engine.dispose()

    @contextmanager
    def look(self) -> Iterator[sa.Connection]:
        """Open one transaction that only reads."""
        with self.explained(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def change(self, look: Look | None = None) -> Iterator[sa.Connection]:
        """Open one transaction that writes; an error while committing is CommitUnknown.

        `look` is taken before, where the transaction would keep all other writers waiting.
        """
        with self.explained(), self.engine.connect() as connection, self._begun(connection, look) as transaction:
            yield connection
            try:
                transaction.commit()
            except sa.exc.DBAPIError as error:
                problem = self.explain(error)
                connection.invalidate()  # its outcome is looked up on another connection
                if problems.is_definite(_cause(error)):
                    raise problem from None
                raise CommitUnknown(problem) from None

    def _begun(self, connection: sa.Connection, look: Look | None) -> sa.RootTransaction:
        """Begin to write; if other connections commit between the look and the lock, look again, a few times."""
        for _ in range(_LOOKS if look is not None and self.dialect == "sqlite" else 0):
            assert look is not None  # noqa: S101 - else there is nothing to repeat
            connection.execution_options(twice_write=False)
            with connection.begin():
                look.before(connection)
            connection.execution_options(twice_write=True)
            transaction = connection.begin()
            if look.holds(connection):
                return transaction
            transaction.rollback()
        connection.execution_options(twice_write=True)
        return connection.begin()

    @contextmanager
    def settled(self, look: Look | None = None) -> Iterator[sa.Connection]:
        """Open one transaction that writes and may be repeated: a lost answer is a transient error."""
        try:
            with self.change(look) as connection:
                yield connection
        except CommitUnknown as unknown:
            raise unknown.problem from None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate the database's errors, without statements and values: they may hold what must not be shown."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise self.explain(error) from None
        except Exception as error:
            # The driver's own errors, of a COPY, are not wrapped by SQLAlchemy.
            if self.dialect == "postgres" and type(error).__module__.startswith("psycopg"):
                raise self.explain(error) from None
            raise

    def explain(self, error: BaseException) -> TwiceError:
        """Return one of our errors for one of the driver's."""
        return problems.explain(_cause(error), self.shown, self._secrets)

    def schema(self, table: TableName) -> str | None:
        """Return the database's schema for a table's namespace; None where the database has only one."""
        namespace = table.namespace
        if len(namespace) != 1:
            raise StoreRefused(
                f"{table}: a table of a SQL database has one namespace, the database's schema: "
                f"write {table.store}.{'main' if self.dialect == 'sqlite' else 'public'}.{table.parts[-1]}",
                unchanged="nothing was changed",
            )
        if self.dialect == "sqlite":
            if namespace[0] != "main":
                raise StoreRefused(
                    f"{table}: a SQLite database has only the namespace main",
                    unchanged="nothing was changed",
                    next_step=f"write {table.store}.main.{table.parts[-1]}",
                )
            return None
        return namespace[0]

    def quoted(self, *names: str | None) -> str:
        """Quote a dotted name for this database."""
        preparer = self.engine.dialect.identifier_preparer
        parts = [preparer.quote_identifier(name) for name in names if name is not None]
        # Some drivers want percent signs doubled in statements with parameters; these statements have none.
        doubled = "%%" in preparer.quote_identifier("%")
        return ".".join(part.replace("%%", "%") if doubled else part for part in parts)

    def run(self, connection: sa.Connection, statement: str) -> None:
        """Run a statement without parameters, whose names are quoted."""
        connection.execute(sa.DDL(statement.replace("%", "%%")))  # type: ignore[no-untyped-call]

    def relation(self, table: TableName) -> str:
        """Quote a table's full name for this database."""
        return self.quoted(self.schema(table), table.parts[-1])

    def columns(self, connection: sa.Connection, table: TableName) -> tuple[Column, ...]:
        """List a live table's columns in order; none if there is no such table."""
        schema, name = self.schema(table), table.parts[-1]
        if self.dialect == "postgres":
            found = connection.execute(_POSTGRES_COLUMNS, {"schema": schema, "name": name})
            return tuple(Column(row.name, row.declared, row.nullable) for row in found)
        if self.dialect == "sqlite":
            listed = connection.execute(_SQLITE_COLUMNS, {"name": name})
            return tuple(Column(row.name, row.type, not row.notnull) for row in listed)
        inspector = sa.inspect(connection)
        if not inspector.has_table(name, schema=schema):
            return ()
        return tuple(
            Column(
                column["name"],
                column["type"].compile(dialect=connection.dialect),
                bool(column.get("nullable", True)),
            )
            for column in inspector.get_columns(name, schema=schema)
        )

    def table(self, table: TableName, columns: tuple[Column, ...]) -> sa.Table:
        """Describe a live table for statements."""
        from twice.store.sql.schema.types import Declared

        return sa.Table(
            exact(table.parts[-1]),
            sa.MetaData(),
            *(sa.Column(exact(c.name), Declared(c.declared), key=f"c{i}") for i, c in enumerate(columns)),
            schema=exact(self.schema(table)),
        )

    def _begin_postgres(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{self.lock_seconds}s'")

    def _options(self) -> dict[str, Any]:
        if self.dialect == "sqlite":
            return {"poolclass": sa.pool.NullPool, "connect_args": {"timeout": float(self.lock_seconds)}}
        if self.dialect == "other":
            return {"poolclass": sa.pool.NullPool}
        kept = {name: value for name, value in _KEEPALIVE.items() if name not in self.url.query}
        wait = {} if "connect_timeout" in self.url.query else {"connect_timeout": _CONNECT_SECONDS}
        return {
            # One connection waits for the next statement of an attempt; further ones are closed after use.
            "pool_size": 1,
            "max_overflow": -1,
            "pool_pre_ping": True,
            "isolation_level": "READ COMMITTED",
            # No prepared statements: a transaction-mode pooler would hand them to another client.
            "connect_args": {**kept, **wait, "client_encoding": "UTF8", "prepare_threshold": None},
        }


def open_database(store: StoreConfig, root: Path) -> Database:
    """Open the database that a store's settings name; an embedded one lies below the configuration's folder."""
    text = store.options.get("url", "")
    example = f'[stores.{store.name}] url = "sqlite:///serving.db" or "postgresql://user:${{PASSWORD}}@host/database"'
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The text itself is not shown: it may hold a password.
        raise ConfigError(f"[stores.{store.name}]: its url is missing or cannot be read", next_step=example) from None
    if "@" in (url.host or ""):
        raise ConfigError(
            f"[stores.{store.name}]: its url has one @ too many", next_step="write an @ in the password as %40"
        )
    if url.drivername in _DRIVERS:
        url = url.set(drivername=_DRIVERS[url.drivername])
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database.startswith((":", "file:")) or url.host or url.query:
            raise ConfigError(f"[stores.{store.name}]: a SQLite store needs a file: sqlite:///path", next_step=example)
        url = url.set(database=str((root / url.database).resolve()))
    return Database(store.name, url)


def exact(name: str | None) -> Any:
    """Always quote a name, so that it is taken literally."""
    return quoted_name(name, quote=True) if name is not None else None


def _cause(error: BaseException) -> BaseException:
    return error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # pysqlite would begin and commit on its own; `begin_sqlite` decides when.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")
    # Room for a publish, so that readers are kept out only while it commits.
    connection.execute("PRAGMA cache_size = -65536")
    connection.create_aggregate("twice_marks", -1, Marks)


def begin_sqlite(connection: sa.Connection) -> None:
    """Begin a transaction of SQLite; one that writes takes the lock at once."""
    # A deferred transaction that turns into a writer fails at once, whatever the timeout is.
    write = connection.get_execution_options().get("twice_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


_POSTGRES_COLUMNS = sa.text(
    "SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS declared, NOT a.attnotnull AS nullable "
    "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_SQLITE_COLUMNS = sa.text('SELECT name, type, "notnull" FROM pragma_table_info(:name)')
