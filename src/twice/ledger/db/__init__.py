"""The database of a ledger: connections, dialects, tables, migrations, and how values are written."""
