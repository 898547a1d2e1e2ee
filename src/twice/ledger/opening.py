"""Find, create and open a ledger by its URL."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.admin import Admin
from twice.ledger.attempts import Attempts
from twice.ledger.backfills import Backfills
from twice.ledger.codes import Codes
from twice.ledger.db.clock import Clock
from twice.ledger.db.database import BUSY_SECONDS, Database
from twice.ledger.db.migrate import Revision, bring_up_to_date, no_ledger, revision_of
from twice.ledger.db.postgres import PostgresDatabase
from twice.ledger.db.schema import REVISIONS
from twice.ledger.db.sqlite import SqliteDatabase
from twice.ledger.effects import Effects
from twice.ledger.leases import Leases
from twice.ledger.outputs import Outputs
from twice.ledger.pacing import Pacing
from twice.ledger.runs import Runs
from twice.ledger.streams import Streams

_WRITE = "write sqlite:///path/to/ledger.db or postgresql://user@host/database in twice.toml"


class Ledger:
    """The record of runs, attempts, leases, outputs, inputs and backfills: one part for each noun."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.url = database.shown
        self.runs = Runs(database, clock)
        self.attempts = Attempts(database, clock)
        self.leases = Leases(database, clock)
        self.outputs = Outputs(database, clock)
        self.codes = Codes(database, clock)
        self.backfills = Backfills(database, clock)
        self.effects = Effects(database, clock)
        self.streams = Streams(database, clock)
        self.pacing = Pacing(database, clock)
        self.admin = Admin(database, clock)

    def __repr__(self) -> str:
        return f"<Ledger {self.url}>"


def open_ledger(
    url: str, *, clock: Clock | None = None, create: bool = True, busy_seconds: float = BUSY_SECONDS
) -> Ledger:
    """Open a ledger; create it or bring its tables up to date where needed.

    `busy_seconds`: how long a writer waits for its turn, until it raises `LedgerBusy`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     open_ledger(f"sqlite:///{directory}/ledger.db").runs.list()
    []
    """
    database = database_of(url, busy_seconds)
    found = _open(database, clock, create=create)
    if found is None:
        raise no_ledger(database)
    return found


def find_ledger(url: str, *, clock: Clock | None = None) -> Ledger | None:
    """Open a ledger if there is one: a project that never ran has none, which is not an error."""
    return _open(database_of(url), clock, create=False)


def revision_at(url: str) -> Revision:
    """Return how far the tables at a URL are migrated; nothing is changed."""
    database = database_of(url)
    return Revision(database.shown, revision_of(database), REVISIONS[-1])


def database_of(url: str, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Choose the kind of database that a URL names; refuse what cannot hold a ledger, without showing a password."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # a port that is not a number, for example: the text may hold a password
        raise UsageError("the ledger's URL cannot be read", next_step=_WRITE) from None
    if "@" in (parsed.host or ""):
        raise UsageError("the ledger's URL has one @ too many", next_step="write an @ in the password as %40")
    kind = parsed.get_backend_name()
    if kind in ("postgres", "postgresql"):
        return PostgresDatabase(parsed, busy_seconds)
    if kind != "sqlite":
        raise UsageError(f"a ledger cannot be kept in {kind!r}", next_step=_WRITE)
    if parsed.host or parsed.query or not parsed.database or parsed.database.startswith((":", "file:")):
        raise UsageError(
            "a SQLite ledger needs a file of its own: sqlite:///relative/path or sqlite:////absolute/path",
            next_step=_WRITE,
        )
    # Absolute now: the process may change its directory later.
    return SqliteDatabase(Path(parsed.database).absolute(), busy_seconds)


def _open(database: Database, clock: Clock | None, *, create: bool) -> Ledger | None:
    revision = revision_of(database)
    if revision is None and not create:
        return None
    if revision != REVISIONS[-1]:
        database.look(create=True)
        bring_up_to_date(database)
    database.tidy()
    return Ledger(database, clock or database.clock())
