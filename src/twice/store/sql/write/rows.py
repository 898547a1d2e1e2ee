"""Rows on their way to databases that take them one by one, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.rows import column
from twice.store.sql.schema.conditions import instant_text
from twice.store.sql.schema.types import is_plain, json_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from twice.store.sql.schema.types import Dialect

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# A float gives back this many digits of a decimal exactly.
_DIGITS = 15
_LARGEST = 2**63


def batches(rows: DataFrame, dialect: Dialect, size: int) -> Iterator[list[tuple[object, ...]]]:
    """Yield the rows as the database takes them; only rows of tasks that succeeded reach the driver."""
    fields = rows.schema.fields
    ready = rows.select(*(_ready(field).alias(f"c{i}") for i, field in enumerate(fields)))
    encoders = [_encoder(field.dataType, dialect) for field in fields]
    served = ready.toLocalIterator(prefetchPartitions=True)
    while batch := list(islice(served, size)):
        yield [
            tuple(
                value if value is None or encode is None else encode(value)
                for value, encode in zip(row, encoders, strict=True)
            )
            for row in batch
        ]


def _ready(field: T.StructField) -> Column:
    """Return a column as a value that is the same in every time zone of Python."""
    value, kind = column(field.name), field.dataType
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(value)
    if isinstance(kind, T.DecimalType):
        return value.cast("string")
    return value if is_plain(kind) else json_text(value)


def _encoder(kind: T.DataType, dialect: Dialect) -> Callable[..., object] | None:
    if isinstance(kind, T.TimestampType):
        return _sqlite_instant if dialect == "sqlite" else _instant
    if isinstance(kind, T.BinaryType):
        return bytes
    return _SQLITE.get(type(kind)) if dialect == "sqlite" else None


def _instant(micros: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)


def _sqlite_instant(micros: int) -> str:
    return instant_text(_EPOCH + timedelta(microseconds=micros))


def _sqlite_decimal(text: str) -> object:
    """Keep a decimal as a number where that is exact; the bytes of its text are never taken for a number."""
    if "." not in text and abs(int(text)) < _LARGEST:
        return int(text)
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    return text if len(digits) <= _DIGITS else text.encode()


_SQLITE: dict[type[T.DataType], Callable[..., object]] = {
    T.DecimalType: _sqlite_decimal,
    T.TimestampNTZType: lambda value: value.isoformat(sep=" ", timespec="microseconds"),
    T.DateType: lambda value: value.isoformat(),
    # SQLite would keep a null.
    T.FloatType: lambda value: "NaN" if isnan(value) else value,
    T.DoubleType: lambda value: "NaN" if isnan(value) else value,
    T.BooleanType: int,
}
