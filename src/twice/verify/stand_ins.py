"""Stand-ins for personal values in cases that are saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T

from twice.verify.literals import NoLiteral

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


class StandIns:
    """Values in the place of personal ones: equal where those are equal, and in the same order."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden
        # The personal columns that were found.
        self.columns: set[str] = set()
        self._values: dict[type, set[Any]] = {}
        self._numbers: dict[tuple[type, Any], int] = {}

    def learn(self, rows: Sequence[Sequence[Any]], schema: T.StructType) -> None:
        """Collect the personal values of a table, before the first is replaced."""
        for index, each in enumerate(schema.fields):
            if each.name.lower() in self._hidden:
                self.columns.add(each.name)
                for row in rows:
                    self._changed(row[index], each.dataType, self._note)
        self._numbers = {
            (kind, value): number
            for kind, values in self._values.items()
            for number, value in enumerate(sorted(values), start=1)
        }

    def row(self, row: Sequence[Any], schema: T.StructType) -> tuple[Any, ...]:
        """Return a row with stand-ins."""
        return tuple(
            self._changed(value, each.dataType, self._stand_in) if each.name.lower() in self._hidden else value
            for value, each in zip(row, schema.fields, strict=True)
        )

    def _changed(self, value: Any, kind: T.DataType, leaf: Callable[[Any, T.DataType], Any]) -> Any:
        if value is None or isinstance(kind, T.BooleanType):  # there is no other truth value that could stand in
            return value
        if isinstance(kind, T.StructType):
            return tuple(self._changed(v, f.dataType, leaf) for v, f in zip(value, kind.fields, strict=True))
        if isinstance(kind, T.ArrayType):
            return [self._changed(each, kind.elementType, leaf) for each in value]
        if isinstance(kind, T.MapType):
            return {
                self._changed(key, kind.keyType, leaf): self._changed(held, kind.valueType, leaf)
                for key, held in value.items()
            }
        return leaf(bytes(value) if isinstance(value, bytearray) else value, kind)

    def _note(self, value: Any, kind: T.DataType) -> Any:  # noqa: ARG002 - as a stand-in is asked for
        self._values.setdefault(type(value), set()).add(value)
        return value

    def _stand_in(self, value: Any, kind: T.DataType) -> Any:
        number = self._numbers[type(value), value]
        if isinstance(kind, T.DecimalType):
            return Decimal(number).scaleb(-kind.scale)
        if isinstance(value, datetime):
            moment = _EPOCH + timedelta(seconds=number)
            return moment if isinstance(kind, T.TimestampType) else moment.replace(tzinfo=None)
        if isinstance(value, date):
            return _EPOCH.date() + timedelta(days=number)
        if isinstance(value, str):
            return f"personal-{number:03}"
        if isinstance(value, bytes):
            return f"personal-{number:03}".encode()
        if isinstance(value, int | float):
            return type(value)(number)
        raise NoLiteral(f"a personal value of type {kind.simpleString()} has no stand-in")
