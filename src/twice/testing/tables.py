"""Small tables from literals: texts become what the schema declares, whatever the machine and its time zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from twice.engine.attempt.compute import declared
from twice.errors import TwiceError, UsageError, did_you_mean
from twice.model.grains import zone_of
from twice.model.names import quote
from twice.model.tables import Table
from twice.testing.sessions import running_or_started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Schema = str | Mapping[str, str] | T.StructType | Table
Rows = Sequence[Sequence[Any] | Mapping[str, Any]]
_Read = Callable[[T.DataType, Any, ZoneInfo], Any]


def table_of(
    schema: Schema, rows: Rows = (), *, spark: SparkSession | None = None, time_zone: str = "UTC"
) -> DataFrame:
    """Make a small table of literals: `table_of("id BIGINT, paid DECIMAL(9,2), d DATE", [(1, "9.90", "2026-04-25")])`.

    The schema is a text, a mapping from columns to types, or a `Table` that declares one. A row is a tuple, or a dict
    that may leave columns out: they are null. Times without a zone are of `time_zone`.
    """
    session = spark or running_or_started()
    parsed = _parsed(schema)
    zone = zone_of(time_zone)
    values = [_row(parsed, row, number, zone) for number, row in enumerate(rows, start=1)]
    try:
        return session.createDataFrame(values, parsed)
    except (PySparkException, TypeError, ValueError) as error:
        raise UsageError(f"the rows do not fit their schema: {str(error).splitlines()[0]}") from None


def _parsed(schema: Schema) -> T.StructType:
    if isinstance(schema, T.StructType):
        return schema
    if isinstance(schema, Table):
        if schema.schema is None:
            raise UsageError(
                f"{schema.name} declares no schema=, so literals cannot become its rows",
                next_step='declare one, or give the columns: table_of("order_id BIGINT, …", […])',
            )
        schema = schema.schema
    if isinstance(schema, Mapping):
        schema = ", ".join(f"{quote(name)} {kind}" for name, kind in schema.items())
    try:
        return declared(schema)
    except TwiceError as error:
        raise UsageError(error.message) from None


def _row(schema: T.StructType, row: object, number: int, zone: ZoneInfo) -> tuple[Any, ...]:
    return _struct(schema, row, f"row {number}", zone)


def _struct(schema: T.StructType, row: object, place: str, zone: ZoneInfo) -> tuple[Any, ...]:
    names = schema.names
    if isinstance(row, Mapping):
        if unknown := [name for name in row if name not in names]:
            raise UsageError(
                f"{place} has a value for {unknown[0]!r}, which is not among the columns: "
                f"{', '.join(names)}{did_you_mean(str(unknown[0]), names)}"
            )
        row = [row.get(name) for name in names]
    if isinstance(row, str | bytes) or not isinstance(row, Sequence):
        raise UsageError(f"{place} must be a tuple or a dict, not {row!r}")
    if len(row) != len(names):
        raise UsageError(f"{place} has {len(row)} values for {len(names)} columns: {', '.join(names)}")
    return tuple(
        _value(field.dataType, value, f"{place}, {field.name}", zone)
        for field, value in zip(schema.fields, row, strict=True)
    )


def _value(kind: T.DataType, value: Any, place: str, zone: ZoneInfo) -> Any:
    """Return a literal as Spark takes it for a type."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return _struct(kind, value, place, zone)
    if isinstance(kind, T.ArrayType):
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise _wrong(kind, value, place)
        return [_value(kind.elementType, each, f"{place}[{index}]", zone) for index, each in enumerate(value)]
    if isinstance(kind, T.MapType):
        if not isinstance(value, Mapping):
            raise _wrong(kind, value, place)
        return {
            _value(kind.keyType, key, place, zone): _value(kind.valueType, each, f"{place}[{key!r}]", zone)
            for key, each in value.items()
        }
    try:
        return _scalar(kind, value, zone)
    except (ValueError, TypeError, InvalidOperation):
        raise _wrong(kind, value, place) from None


def _scalar(kind: T.DataType, value: Any, zone: ZoneInfo) -> Any:
    """Return a single value of a type; raise `ValueError` or `TypeError` for one that does not fit."""
    for types, read in _READERS:
        if isinstance(kind, types):
            return read(kind, value, zone)
    return value  # of a type that has no text form of its own: Spark decides


def _integer(_: T.DataType, value: Any, __: ZoneInfo) -> int:
    if isinstance(value, bool | float):
        raise TypeError(value)
    return int(value)


def _float(_: T.DataType, value: Any, __: ZoneInfo) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


def _date(_: T.DataType, value: Any, __: ZoneInfo) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else _only(value, date)


def _text(_: T.DataType, value: Any, __: ZoneInfo) -> Any:
    return _only(value, str)


def _bytes(_: T.DataType, value: Any, __: ZoneInfo) -> Any:
    return value.encode() if isinstance(value, str) else _only(value, bytes)


def _only(value: Any, kind: type) -> Any:
    # To Python a datetime is a date; for a column of dates it is a mistake.
    if not isinstance(value, kind) or (kind is date and isinstance(value, datetime)):
        raise TypeError(value)
    return value


def _decimal(kind: T.DataType, value: Any, _: ZoneInfo) -> Decimal:
    assert isinstance(kind, T.DecimalType)  # noqa: S101 - as the list of readers defines
    if isinstance(value, bool):
        raise TypeError(value)
    found = Decimal(str(value))
    if not found.is_finite() or round(found, kind.scale) != found or abs(found) >= 10 ** (kind.precision - kind.scale):
        raise ValueError(value)
    return found


def _boolean(_: T.DataType, value: Any, __: ZoneInfo) -> Any:
    known = {"true": True, "false": False}
    return known[value] if isinstance(value, str) and value in known else _only(value, bool)


def _instant(kind: T.DataType, value: Any, zone: ZoneInfo) -> datetime:
    found = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else _only(value, datetime)
    assert isinstance(found, datetime)  # noqa: S101 - read or checked above
    if isinstance(kind, T.TimestampNTZType):
        if found.tzinfo is not None:
            raise ValueError(value)
        return found
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)


def _wrong(kind: T.DataType, value: object, place: str) -> UsageError:
    return UsageError(f"{place}: {value!r} does not fit {kind.simpleString()}")


# Decimals are fractional numbers to Spark, so they come first.
_READERS: tuple[tuple[tuple[type[T.DataType], ...], _Read], ...] = (
    ((T.DecimalType,), _decimal),
    ((T.BooleanType,), _boolean),
    ((T.IntegralType,), _integer),
    ((T.FractionalType,), _float),
    ((T.TimestampType, T.TimestampNTZType), _instant),
    ((T.DateType,), _date),
    ((T.StringType,), _text),
    ((T.BinaryType,), _bytes),
)
