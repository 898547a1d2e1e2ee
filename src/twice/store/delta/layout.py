"""How a table's log spells partitions, and a scope as conditions on them: no Spark needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pyspark.sql import types as T

from twice.model.names import quote, quote_text

if TYPE_CHECKING:
    from twice.model.targets import Target

_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class Layout:
    """The partition columns of a table: what the log calls each, its name, its type."""

    columns: tuple[tuple[str, str, T.DataType], ...]
    zone: str = "UTC"

    @classmethod
    def of(cls, schema: T.StructType, partitions: Sequence[str], zone: str, *, mapped: bool) -> Layout:
        """Read the layout from a table's columns."""
        found = []
        for name in partitions:
            field = schema[name]
            physical = (field.metadata or {}).get(_PHYSICAL, name) if mapped else name
            found.append((str(physical), name, field.dataType))
        return cls(tuple(found), zone)

    def partition(self, spelled: Mapping[str, str | None]) -> dict[str, object]:
        """Return a file's partition as Python values, by column."""
        return {name: self._value(spelled.get(physical), kind) for physical, name, kind in self.columns}

    def _value(self, text: str | None, kind: T.DataType) -> object:
        # Delta writes no value for null, and none for the empty text.
        if not text:
            return None
        try:
            if isinstance(kind, T.DateType):
                return date.fromisoformat(text)
            if isinstance(kind, T.TimestampType):
                found = datetime.fromisoformat(text.replace("Z", "+00:00"))
                # Written without a zone by an older Delta: Spark reads it in the session's.
                return found if found.tzinfo else found.replace(tzinfo=ZoneInfo(self.zone)).astimezone(timezone.utc)
        except ValueError:
            return text
        return text


def is_mapped(properties: Mapping[str, str]) -> bool:
    """Return whether a table's files name its columns in their own way."""
    return properties.get("delta.columnMapping.mode", "none") != "none"


def identity_of(add: Mapping[str, Any]) -> str:
    """Name the live rows of a file: its place in the log, and what shows which of them are deleted."""
    vector = add.get("deletionVector")
    deleted = json.dumps([vector["storageType"], vector["pathOrInlineDv"], vector.get("offset")]) if vector else ""
    return f"{add['path']}\n{deleted}" if vector else str(add["path"])


def conditions(target: Target) -> list[str]:
    """Return the scope as conditions on partition columns, in Spark SQL."""
    terms = [f"{quote(name)} = {quote_text(value)}" for name, value in target.scope.dimensions]
    if (bounds := target.bounds()) and target.table.partition:
        column = quote(target.table.partition.column)
        terms += [f"{column} >= {literal(bounds[0])}", f"{column} < {literal(bounds[1])}"]
    return terms


def inside(target: Target, partition: Mapping[str, object]) -> bool:
    """Return whether a file's partition meets these conditions."""
    for name, wanted in target.scope.dimensions:
        if partition.get(name) is None or str(partition[name]) != wanted:
            return False
    if not (bounds := target.bounds()) or not target.table.partition:
        return True
    value = partition.get(target.table.partition.column)
    return type(value) is type(bounds[0]) and bounds[0] <= value < bounds[1]


def literal(value: object) -> str:
    """Spell a date or an instant so that no session time zone can shift it.

    >>> literal(date(2026, 4, 25))
    "DATE '2026-04-25'"
    """
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f} UTC'"
    assert isinstance(value, date)  # noqa: S101 - partition values are dates or instants
    return f"DATE '{value.isoformat()}'"
