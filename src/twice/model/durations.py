"""Lengths of time as people write them: calendar days follow the time zone, hours do not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from twice.errors import DefinitionError, UsageError


@dataclass(frozen=True)
class Duration:
    """Whole calendar days plus an exact length of time."""

    days: int = 0
    exact: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        for name, value, kind in (("days", self.days, int), ("exact", self.exact, timedelta)):
            if not isinstance(value, kind) or isinstance(value, bool):
                raise DefinitionError(f"a duration's {name} cannot be {value!r}: write days(7) or hours(36)")
        if self.days < 0 or self.exact < timedelta(0):
            raise DefinitionError(f"a duration cannot be negative: {self.days} days, {self.exact}")

    def __bool__(self) -> bool:
        return bool(self.days or self.exact)

    def __str__(self) -> str:
        parts = []
        if self.days:
            parts.append(f"{self.days} day{'' if self.days == 1 else 's'}")
        if self.exact:
            parts.append(str(self.exact))
        return " ".join(parts) or "0 days"

    def after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Return the instant this much later, counting days on the zone's calendar."""
        return self._shift(instant, zone, 1)

    def before(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Return the instant this much earlier, counting days on the zone's calendar."""
        return self._shift(instant, zone, -1)

    def _shift(self, instant: datetime, zone: ZoneInfo, sign: int) -> datetime:
        try:
            if self.days:
                local = instant.astimezone(zone)
                # Adding to a local time forgets which of two equal clock readings it was.
                instant = (local + timedelta(days=sign * self.days)).replace(fold=local.fold)
            return instant.astimezone(timezone.utc) + sign * self.exact
        except OverflowError:
            where = "before" if sign < 0 else "after"
            raise UsageError(f"{self} {where} {instant.isoformat()} is outside the calendar") from None


def days(count: int) -> Duration:
    """Return `count` calendar days: `days(7)`."""
    return Duration(days=count)


def hours(count: int) -> Duration:
    """Return `count` hours of sixty minutes, whatever the clocks do."""
    return Duration(exact=_exact("hours", count))


def minutes(count: int) -> Duration:
    """Return `count` minutes."""
    return Duration(exact=_exact("minutes", count))


def _exact(unit: str, count: int) -> timedelta:
    try:
        return timedelta(**{unit: count})
    except (TypeError, OverflowError):
        raise DefinitionError(f"{unit}({count!r}) needs a number") from None
