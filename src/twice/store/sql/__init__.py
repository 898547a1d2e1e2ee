"""Tables of SQL databases: Postgres, SQLite, and others through SQLAlchemy."""

from twice.store.sql.database import open_database
from twice.store.sql.store import SqlStore

__all__ = ["SqlStore", "open_database"]
