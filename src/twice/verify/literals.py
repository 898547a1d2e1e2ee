"""Rows as Python literals, and copies of inputs made from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from twice.model.names import quote
from twice.verify.preparing import Inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A table's columns as DDL, and its rows as tuples or dicts.
Literals = tuple[str, Sequence[Any]]

_PLAIN = (T.StringType, T.BooleanType, T.IntegralType)


class NoLiteral(Exception):
    """A value that cannot be written as a Python literal; its message names the type."""


def ddl(schema: T.StructType) -> str:
    """Write columns as DDL, whatever characters their names have.

    >>> from pyspark.sql import types as T
    >>> ddl(T.StructType().add("id", T.LongType()).add("o'clock", T.StructType().add("a b", T.DateType())))
    "`id` bigint, `o'clock` struct<`a b`: date>"
    """
    return ", ".join(f"{quote(each.name)} {_kind(each.dataType)}" for each in schema.fields)


def _kind(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return f"struct<{', '.join(f'{quote(each.name)}: {_kind(each.dataType)}' for each in kind.fields)}>"
    if isinstance(kind, T.ArrayType):
        return f"array<{_kind(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"map<{_kind(kind.keyType)}, {_kind(kind.valueType)}>"
    return kind.simpleString()


@dataclass
class Writer:
    """Writes values as Python source, and remembers which names that source needs."""

    uses: set[str] = field(default_factory=set)

    def literal(self, value: Any, kind: T.DataType) -> str:
        """Write one value of a column.

        >>> from datetime import date
        >>> Writer().literal([date(2026, 4, 25), None], T.ArrayType(T.DateType()))
        '[date(2026, 4, 25), None]'
        """
        if value is None:
            return "None"
        if isinstance(kind, T.StructType):
            parts = [self.literal(each, part.dataType) for each, part in zip(value, kind.fields, strict=True)]
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if isinstance(kind, T.ArrayType):
            return f"[{', '.join(self.literal(each, kind.elementType) for each in value)}]"
        if isinstance(kind, T.MapType):
            pairs = ((self.literal(k, kind.keyType), self.literal(v, kind.valueType)) for k, v in value.items())
            return f"{{{', '.join(f'{key}: {held}' for key, held in pairs)}}}"
        return self._leaf(value, kind)

    def _leaf(self, value: Any, kind: T.DataType) -> str:
        if isinstance(kind, _PLAIN):
            return repr(value)
        if isinstance(kind, T.FractionalType) and isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(kind, T.BinaryType):
            return repr(bytes(value))
        if isinstance(value, Decimal):
            return self._call("Decimal", f'"{value}"')
        return self._time(value, kind)

    def _time(self, value: Any, kind: T.DataType) -> str:
        if isinstance(value, datetime):
            return self._moment(value, zoned=isinstance(kind, T.TimestampType))
        if isinstance(value, date):
            return self._call("date", f"{value.year}, {value.month}, {value.day}")
        if isinstance(value, timedelta):
            return self._call("timedelta", f"{value.days}, {value.seconds}, {value.microseconds}")
        raise NoLiteral(f"a value of type {kind.simpleString()} has no Python literal")

    def _moment(self, value: datetime, *, zoned: bool) -> str:
        """Write a moment with its zone; Spark returns it in the zone of this process, without the zone."""
        if zoned:
            value = value.astimezone(timezone.utc)
            self.uses.add("timezone")
        parts = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
        while len(parts) > 5 and not parts[-1]:
            parts.pop()
        return self._call("datetime", ", ".join(map(str, parts)) + (", tzinfo=timezone.utc" if zoned else ""))

    def _call(self, name: str, arguments: str) -> str:
        self.uses.add(name)
        return f"{name}({arguments})"


def write_copies(spark: SparkSession, folder: Path, tables: Mapping[str, Literals]) -> Inputs:
    """Write inputs from literals, as `preparing` would have copied them."""
    found = Inputs()
    for number, (name, (columns, rows)) in enumerate(tables.items()):
        place = str(folder / f"{number}-as-is")
        spark.createDataFrame(list(rows), columns).coalesce(1).write.parquet(place)
        found.folders[name] = place
        found.rows[name] = len(rows)
    return found
