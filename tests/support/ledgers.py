"""Ledgers as an earlier version of twice left them."""

from __future__ import annotations

from alembic import command
from alembic.config import Config

from twice.ledger import Ledger
from twice.ledger.db.migrate import SCRIPTS
from twice.ledger.db.schema import REVISIONS


def put_back(ledger: Ledger, revision: str = REVISIONS[-2]) -> None:
    """Give a ledger the tables of an earlier revision; its rows stay."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with ledger.database.write() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
