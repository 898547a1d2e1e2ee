"""The only notion of "when" that a step has: a half-open span of event time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from twice.errors import UsageError


@dataclass(frozen=True, order=True)
class Window:
    """A half-open span `[start, end)` of event time, kept in UTC.

    >>> from datetime import datetime, timezone
    >>> from twice import Window
    >>> day = Window(datetime(2026, 4, 25, tzinfo=timezone.utc), datetime(2026, 4, 26, tzinfo=timezone.utc))
    >>> day.contains(day.start), day.contains(day.end)
    (True, False)
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("end", self.end)):
            if not isinstance(value, datetime):
                raise UsageError(f"a window's {name} must be a datetime with a time zone, not {value!r}")
            if value.tzinfo is None:
                raise UsageError(f"a window's {name} needs a time zone: {value.isoformat()} has none")
            object.__setattr__(self, name, value.astimezone(timezone.utc))
        if self.end <= self.start:
            raise UsageError(
                f"a window must end after it starts: {_text(self.start)} to {_text(self.end)}",
                next_step="give the later date as the end; the end itself is not part of the window",
            )

    def __str__(self) -> str:
        return f"{_text(self.start)}/{_text(self.end)}"

    def contains(self, instant: datetime) -> bool:
        """Return whether an instant lies inside; the end does not."""
        return self.start <= instant < self.end

    def overlaps(self, other: Window) -> bool:
        """Return whether the two windows share an instant."""
        return self.start < other.end and other.start < self.end

    def covers(self, other: Window) -> bool:
        """Return whether the other window lies wholly inside this one."""
        return self.start <= other.start and other.end <= self.end

    def to_json(self) -> dict[str, str]:
        """Return the window as JSON scalars."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat()}

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Window:
        """Read what `to_json` wrote."""
        return cls(datetime.fromisoformat(value["start"]), datetime.fromisoformat(value["end"]))


def _text(instant: datetime) -> str:
    """Show an instant as briefly as possible without losing precision."""
    text = instant.replace(tzinfo=None).isoformat(timespec="microseconds").rstrip("0").rstrip(".")
    return text.removesuffix(":00").removesuffix("T00:00") + ("" if text.endswith("T00:00:00") else "Z")
