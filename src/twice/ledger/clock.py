"""What time it is, as far as leases and records are concerned; never used to decide data."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Protocol


class Clock(Protocol):
    """Anything that tells the time as an aware UTC datetime."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)


class ManualClock:
    """A clock that moves only when told to, for tests.

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
        """Move the clock on."""
        self._now += by
