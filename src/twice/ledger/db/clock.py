"""What time it is, as far as leases and records are concerned; never used to decide data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Protocol

import sqlalchemy as sa

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# As a number, which no time zone setting of the server, the user or the session changes.
_MICROSECONDS = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)")


class Clock(Protocol):
    """Anything that returns the time as an aware UTC datetime."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)


class ServerClock:
    """The clock of the database server, for processes on many machines."""

    def __init__(self, connect: Callable[[], AbstractContextManager[sa.Connection]]) -> None:
        self._connect = connect

    def now(self) -> datetime:
        with self._connect() as connection:
            return self.within(connection)

    def within(self, connection: sa.Connection) -> datetime:
        """Return the current time in an open transaction, not the time at which it began."""
        return _EPOCH + timedelta(microseconds=connection.execute(_MICROSECONDS).scalar_one())


class ManualClock:
    """A clock that moves only on demand, for tests.

    >>> clock = ManualClock(datetime(2026, 4, 25, tzinfo=timezone.utc))
    >>> clock.advance(timedelta(minutes=1))
    >>> clock.now().isoformat()
    '2026-04-25T00:01:00+00:00'
    """

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(timezone.utc)

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        """Advance the clock."""
        self._now += by
