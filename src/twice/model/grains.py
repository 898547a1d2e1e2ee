"""Grains: how time is cut into partitions, in the pipeline's time zone.

Days, weeks and months are cut on the zone's calendar, so a local day may have 23 or 25 hours;
their partition column is a date. Hours and quarter hours are UTC instants; their partition
column is a timestamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from twice.errors import DefinitionError, UsageError
from twice.model.names import check_identifier
from twice.model.windows import Window

GrainName = Literal["15 minutes", "hour", "day", "week", "month"]
PartitionValue = date | datetime

# How each grain nests: every partition of the key is a union of whole partitions of the values.
_MADE_OF: dict[str, frozenset[str]] = {
    "15 minutes": frozenset({"15 minutes"}),
    "hour": frozenset({"15 minutes", "hour"}),
    "day": frozenset({"15 minutes", "hour", "day"}),
    "week": frozenset({"15 minutes", "hour", "day", "week"}),
    "month": frozenset({"15 minutes", "hour", "day", "month"}),
}
_MINUTES = {"15 minutes": 15, "hour": 60}
_EXAMPLE = {
    "15 minutes": "2026-04-25T13:45",
    "hour": "2026-04-25T13:00",
    "day": "2026-04-25",
    "week": "2026-04-20 (a Monday) or 2026-W17",
    "month": "2026-04",
}


@dataclass(frozen=True)
class Grain:
    """A way to cut time; called with a column it becomes a table's partition: `Day("order_date")`."""

    name: GrainName

    def __call__(self, column: str) -> Partition:
        return Partition(self, column)

    def __str__(self) -> str:
        return self.name

    @property
    def sub_day(self) -> bool:
        """Whether partitions are UTC instants and not calendar dates."""
        return self.name in _MINUTES

    def floor(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Return the start of the partition that holds the instant."""
        instant = _utc(instant)
        if self.sub_day:
            return _floor_minutes(instant, _MINUTES[self.name])
        first = self._first_date(instant.astimezone(zone).date())
        start = _midnight(first, zone)
        following = self.next(start, zone)
        # Clocks set back over midnight repeat the evening before: the day begins at its first midnight.
        return following if following <= instant else start

    def next(self, start: datetime, zone: ZoneInfo) -> datetime:
        """Return the start of the partition after the one that begins at `start`."""
        start = _utc(start)
        if self.sub_day:
            return start + timedelta(minutes=_MINUTES[self.name])
        following = start
        first = self._first_date(start.astimezone(zone).date())
        while following <= start:  # a zone may skip a whole calendar date
            first = self._next_date(first)
            following = _midnight(first, zone)
        return following

    def is_boundary(self, instant: datetime, zone: ZoneInfo) -> bool:
        """Return whether a partition starts at the instant."""
        instant = _utc(instant)  # an ambiguous local time equals no other datetime
        return self.floor(instant, zone) == instant

    def partitions(self, window: Window, zone: ZoneInfo) -> Iterator[Window]:
        """Cut a window into its partitions, in order; both ends must be boundaries."""
        for name, instant in (("start", window.start), ("end", window.end)):
            if not self.is_boundary(instant, zone):
                raise UsageError(
                    f"the {name} of {window} is not a boundary of the grain {self.name} in {zone.key}: "
                    f"the partition around it starts at {self.floor(instant, zone).isoformat()}",
                    next_step="give a window made of whole partitions",
                )
        start = window.start
        while start < window.end:
            following = self.next(start, zone)
            yield Window(start, following)
            start = following

    def containing(self, instant: datetime, zone: ZoneInfo) -> Window:
        """Return the partition that holds the instant."""
        start = self.floor(instant, zone)
        return Window(start, self.next(start, zone))

    def value(self, start: datetime, zone: ZoneInfo) -> PartitionValue:
        """Return what the partition column holds for the partition that begins at `start`."""
        return _utc(start) if self.sub_day else self._first_date(start.astimezone(zone).date())

    def start_of(self, value: PartitionValue, zone: ZoneInfo) -> datetime:
        """Return the start of the partition whose column holds `value`."""
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc)
        return _midnight(value, zone)

    def label(self, start: datetime, zone: ZoneInfo) -> str:
        """Name a partition briefly, as `parse` reads it."""
        if self.sub_day:
            return _utc(start).replace(tzinfo=None).isoformat(timespec="minutes")
        first = self._first_date(start.astimezone(zone).date())
        return first.isoformat()[:7] if self.name == "month" else first.isoformat()

    def parse(self, text: str, zone: ZoneInfo) -> datetime:
        """Read a partition's start as people write it; anything off the grain is refused."""
        instant = self._read(text, zone)
        if not self.is_boundary(instant, zone):
            start = self.floor(instant, zone)
            raise UsageError(
                f"{text} is not the start of a {self.name}: nearest are {self.label(start, zone)} "
                f"and {self.label(self.next(start, zone), zone)}"
            )
        return instant

    def unit(self, text: str, zone: ZoneInfo) -> Window:
        """Read one whole partition: what `--for` means."""
        start = self.parse(text, zone)
        return Window(start, self.next(start, zone))

    def is_made_of(self, other: Grain, zone: ZoneInfo) -> bool:
        """Return whether every partition of this grain is a union of whole partitions of `other`."""
        if other.name not in _MADE_OF[self.name]:
            return False
        if not other.sub_day or self.sub_day:
            return True
        return all(offset % timedelta(minutes=_MINUTES[other.name]) == timedelta(0) for offset in _offsets(zone))

    def _first_date(self, day: date) -> date:
        if self.name == "week":
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if self.name == "month" else day

    def _next_date(self, first: date) -> date:
        if self.name == "month":
            return (first.replace(day=1) + timedelta(days=32)).replace(day=1)
        return first + timedelta(days=7 if self.name == "week" else 1)

    def _read(self, text: str, zone: ZoneInfo) -> datetime:
        calendar = ZoneInfo("UTC") if self.sub_day else zone
        try:
            instant = self._read_written(text.strip(), calendar)
            self.containing(instant, zone)  # the last day of the calendar has no end, its first one may have no start
        except (AttributeError, ValueError, OverflowError):
            raise UsageError(f"{text!r} is not a {self.name}: write it like {_EXAMPLE[self.name]}") from None
        return instant

    def _read_written(self, text: str, zone: ZoneInfo) -> datetime:
        if self.name == "month" and re.fullmatch(r"\d{4}-\d{2}", text):
            return _midnight(date.fromisoformat(text + "-01"), zone)
        if self.name == "week" and (week := re.fullmatch(r"(\d{4})-W(\d{2})", text)):
            return _midnight(date.fromisocalendar(int(week[1]), int(week[2]), 1), zone)
        if self.sub_day and re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}", text):
            text += ":00"
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = date.fromisoformat(text)
            start = _midnight(day, zone)
            if start.astimezone(zone).date() != day:
                raise UsageError(f"there is no {text} in {zone.key}: its clocks skipped that day")
            return start
        instant = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (instant if instant.tzinfo else instant.replace(tzinfo=zone)).astimezone(timezone.utc)


@dataclass(frozen=True)
class Partition:
    """A table's partition: the grain and the column that holds each row's partition."""

    grain: Grain
    column: str

    def __post_init__(self) -> None:
        check_identifier(self.column, "a partition column")

    def __str__(self) -> str:
        return f"{self.column} by {self.grain}"


QuarterHour = Grain("15 minutes")
Hour = Grain("hour")
Day = Grain("day")
Week = Grain("week")
Month = Grain("month")


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        raise DefinitionError(f"unknown time zone {name!r}: use a name such as UTC or Europe/Berlin") from None


def local_cut(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return where an instant cuts local times: the start of a date at its midnight, also if the clocks skip it.

    >>> cairo = zone_of("Africa/Cairo")  # on 2026-04-24 the clocks there go from midnight to 01:00
    >>> local_cut(Day.parse("2026-04-24", cairo), cairo).isoformat()
    '2026-04-24T00:00:00'
    """
    local = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    return datetime.combine(local.date(), time()) if Day.is_boundary(instant, zone) else local


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return the first instant of a local date, also where the clocks skip midnight."""
    early, late = (datetime.combine(day, time(fold=fold), zone).astimezone(timezone.utc) for fold in (1, 0))
    if early >= late:  # midnight exists; where it does twice, `late` (fold 0) is the first of the two
        return late
    while late - early > timedelta(seconds=1):  # midnight is skipped: the date begins where the gap ends
        middle = early + (late - early) // timedelta(seconds=2) * timedelta(seconds=1)
        early, late = (early, middle) if middle.astimezone(zone).date() >= day else (middle, late)
    return late


def _utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise UsageError(f"an instant needs a time zone: {instant.isoformat()} has none")
    return instant.astimezone(timezone.utc)


def _floor_minutes(instant: datetime, minutes: int) -> datetime:
    past = timedelta(minutes=instant.minute % minutes, seconds=instant.second, microseconds=instant.microsecond)
    return instant - past


def _offsets(zone: ZoneInfo) -> set[timedelta]:
    """The zone's offsets to UTC in our century, one probe a month."""
    probes = (datetime(year, month, 1, tzinfo=zone) for year in range(2000, 2040) for month in range(1, 13))
    return {offset for probe in probes if (offset := probe.utcoffset()) is not None}
