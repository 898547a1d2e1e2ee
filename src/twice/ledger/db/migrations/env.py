"""Run the migrations inside the transaction that `twice.ledger.db.migrate` hands over."""

from __future__ import annotations

from alembic import context

from twice.ledger.db.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
