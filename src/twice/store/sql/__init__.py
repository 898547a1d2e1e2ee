"""Tables of SQL databases: Postgres, SQLite, and others through SQLAlchemy."""
