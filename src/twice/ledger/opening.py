"""Find, create and open a ledger by its URL."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from twice.errors import LedgerError, UsageError
from twice.ledger.clock import Clock
from twice.ledger.dialect import Database
from twice.ledger.housekeeping import Housekeeping
from twice.ledger.leases import Leases
from twice.ledger.migrate import bring_up_to_date, no_ledger
from twice.ledger.problems import explain
from twice.ledger.publishing import Publishing
from twice.ledger.reading import Reading
from twice.ledger.runs import Runs

# SQLite takes a shorter file for an empty database and would write over it.
_SMALLEST = 512


class Ledger(Runs, Leases, Publishing, Reading, Housekeeping):
    """The record of runs, attempts, leases, outputs and inputs."""

    def __repr__(self) -> str:
        return f"<Ledger {self.url}>"


def open_ledger(url: str, *, clock: Clock | None = None, create: bool = True) -> Ledger:
    """Open a ledger; create it or bring its tables up to date where needed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     open_ledger(f"sqlite:///{directory}/ledger.db").runs()
    []
    """
    path = _path_of(url)
    try:
        if path.is_dir():
            raise _unusable(path, "it is a directory")
        if not path.exists():
            if not create:
                raise no_ledger(path)
            path.parent.mkdir(parents=True, exist_ok=True)
        elif 0 < path.stat().st_size < _SMALLEST:
            raise explain("file is not a database", path)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    database = Database(path)
    bring_up_to_date(database, create=create)
    database.use_rollback_journal()
    return Ledger(database, clock or database.clock())


def _path_of(url: str) -> Path:
    """Return the absolute path in a SQLite URL; refuse every other kind, without showing a password."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise UsageError(
            "the ledger's URL cannot be read", to_go_on="write sqlite:///path/to/ledger.db in twice.toml"
        ) from None
    kind = parsed.get_backend_name()
    if kind != "sqlite":
        raise UsageError(
            f"a ledger cannot live in {kind!r}", to_go_on="write sqlite:///path/to/ledger.db in twice.toml"
        )
    if parsed.host or parsed.query or not parsed.database or parsed.database.startswith((":", "file:")):
        raise UsageError(
            "a SQLite ledger needs a file of its own: sqlite:///relative/path or sqlite:////absolute/path",
            to_go_on="write sqlite:///path/to/ledger.db in twice.toml",
        )
    # Absolute now: the process may change its directory later.
    return Path(parsed.database).absolute()


def _unusable(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} cannot be opened: {why}",
        safe="nothing was changed",
        to_go_on=f"check {path.parent} and who may use it, or name another ledger in twice.toml",
    )
