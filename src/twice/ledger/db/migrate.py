"""Migrate a ledger's tables to the newest revision of this package, and refuse unknown ones."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from twice.errors import LedgerError
from twice.ledger.db.database import Database
from twice.ledger.db.schema import REVISIONS, VERSION_TABLE

SCRIPTS = Path(__file__).parent / "migrations"

# Alembic keeps the migration at work in module globals: one at a time per process.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Revision:
    """The revision of a ledger's tables, None where there are none, and the newest one of this package."""

    url: str
    found: str | None
    newest: str

    @property
    def up_to_date(self) -> bool:
        return self.found == self.newest

    def to_json(self) -> dict[str, object]:
        return {"url": self.url, "revision": self.found, "newest": self.newest, "up_to_date": self.up_to_date}


def bring_up_to_date(database: Database) -> None:
    """Create or migrate the tables; doing it in two processes at once is safe."""
    with _ONE_AT_A_TIME, database.write() as connection:
        database.lock_for_migration(connection)
        # The other process may have been first.
        if _revision(connection, database) != REVISIONS[-1]:
            _upgrade(connection)


def revision_of(database: Database) -> str | None:
    """Return the revision of the ledger's tables, None where there are none."""
    if not database.look(create=False):
        return None
    with database.read() as connection:
        return _revision(connection, database)


def _revision(connection: sa.Connection, database: Database) -> str | None:
    """Return the ledger's revision, None for a new one; refuse what is not a ledger, or a newer one."""
    names = database.tables(connection)
    if VERSION_TABLE not in names:
        if names:
            raise LedgerError(
                f"{database.place} is a database of something else: it holds {', '.join(sorted(names)[:5])}",
                unchanged="the ledger was left as it is",
                next_step=f"give the ledger {database.own}",
            )
        return None
    found = connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE)))
    if found not in REVISIONS:
        raise LedgerError(
            f"the ledger {database.place} was written by a newer version of twice (its tables are at {found}, "
            f"this one knows {REVISIONS[-1]})",
            unchanged="the ledger was left as it is",
            next_step="pip install --upgrade twice",
        )
    return str(found)


def no_ledger(database: Database) -> LedgerError:
    """Return the error of a ledger that does not exist."""
    return LedgerError(
        f"there is no ledger at {database.place}",
        unchanged="nothing was created",
        next_step="run a pipeline first, or check `ledger` in twice.toml",
    )


def _upgrade(connection: sa.Connection) -> None:
    # Imported here: an up-to-date ledger, the usual case, opens without Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
