"""How Spark reaches a database: a JDBC URL and options; the password is an option, which no plan shows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from twice.errors import StoreRefused

if TYPE_CHECKING:
    import sqlalchemy as sa

    from twice.store.sql.database import Database

_ROWS_AT_ONCE = 10_000
# Options by their name in libpq, and in Postgres's JDBC driver.
_POSTGRES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "options": "options",
    "channel_binding": "channelBinding",
    "connect_timeout": "connectTimeout",
    "application_name": "ApplicationName",
}
_OTHERS = {
    "mysql": "jdbc:mysql://{host}/{database}",
    "mariadb": "jdbc:mariadb://{host}/{database}",
    "redshift": "jdbc:redshift://{host}/{database}",
    "mssql": "jdbc:sqlserver://{host};databaseName={database}",
    "snowflake": "jdbc:snowflake://{host}.snowflakecomputing.com/?db={database}",
}


def options(database: Database) -> dict[str, str]:
    """Return what Spark's JDBC source needs to reach a database."""
    url = database.url
    found = {"url": _url(database, url), "fetchsize": str(_ROWS_AT_ONCE)}
    if database.dialect != "sqlite":
        found |= {"user": url.username or "", "password": str(url.password or "")}
    if database.dialect == "postgres":
        found["driver"] = "org.postgresql.Driver"
    elif database.dialect == "sqlite":
        found["driver"] = "org.sqlite.JDBC"
    return {name: value for name, value in found.items() if value}


def _url(database: Database, url: sa.URL) -> str:
    if database.dialect == "sqlite":
        return f"jdbc:sqlite:{url.database}?busy_timeout=30000&open_mode=1"
    port = f":{url.port}" if url.port else ""
    if database.dialect == "postgres":
        given = {"connect_timeout": "10", "application_name": "twice"} | {name: str(v) for name, v in url.query.items()}
        passed = {_POSTGRES[name]: value for name, value in given.items() if name in _POSTGRES}
        passed["tcpKeepAlive"] = "true"
        host = given.get("host") or url.host or "localhost"
        return f"jdbc:postgresql://{host}{port}/{quote(url.database or '', safe='')}?{urlencode(passed)}"
    backend = url.get_backend_name()
    if backend not in _OTHERS:
        raise StoreRefused(
            f"{database.shown}: twice does not know how Spark reads from {backend}",
            unchanged="nothing was changed",
            next_step=f"read through one of: postgresql, sqlite, {', '.join(_OTHERS)}",
        )
    return _OTHERS[backend].format(host=f"{url.host}{port}", database=url.database or "")
