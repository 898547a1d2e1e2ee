"""The JDBC drivers of databases: their packages, and which of their errors are transient."""

from __future__ import annotations

SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRES = "org.postgresql:postgresql:42.7.7"
EVERY = (SQLITE, POSTGRES)
# Both bring everything they need.
COMPLETE = ("org.xerial:sqlite-jdbc", "org.postgresql:postgresql")
TRANSIENT_ERRORS = (
    r"SQLITE_BUSY|database is locked"
    r"|PSQLException: (FATAL: (terminating|the database system|sorry, too many)|An I/O error|This connection has been"
    r"|Connection to \S+ refused|The connection attempt failed|ERROR: (invalid snapshot identifier|could not import))"
)


def driver_of(url: str) -> tuple[str, ...]:
    """Return the package of the driver that a URL needs; none for other databases."""
    if url.startswith("sqlite"):
        return (SQLITE,)
    return (POSTGRES,) if url.startswith("postgres") else ()
