"""How each column travels from a database to Spark: as a plain value that no layer on the way can shift.

JDBC reads times in the zone of the Java process, where an hour may come twice or not at all, and takes an
infinite date for some day. So instants and local times travel as microseconds, dates as days, arrays as JSON,
and what Spark has no type for as text. SQLite keeps what it was given, whatever the column declares: there all is sent
as text, and a text that is not a value of the declared type stops the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.store.sql.schema.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from twice.store.sql.schema.types import Column

Route: TypeAlias = "tuple[T.DataType, str, T.DataType, Callable[[SparkColumn], SparkColumn]]"
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_TEXTS = ("text", "character varying", "character", "citext", "name")
_AS_THEY_ARE: Mapping[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "smallint": T.ShortType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "real": T.FloatType(),
    "double precision": T.DoubleType(),
    "bytea": T.BinaryType(),
}
_MICROS = "(extract(epoch from {}) * 1000000)::bigint"
_EPOCH_NTZ = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
# The offset in a time's text, if it has one, follows the date.
_ZONED = "(substr({0}, 11) GLOB '*[-+]*' OR {0} GLOB '*[Zz]')"


@dataclass(frozen=True)
class Transport:
    """One column: its Spark type, its query, the type that it is sent as, and how it is converted back."""

    name: str
    type: T.DataType
    query: str
    travels: T.DataType
    decoded: Callable[[str], SparkColumn]


def from_postgres(column: Column, quoted: str) -> Transport:
    """Return how a column of Postgres travels."""
    declared = column.declared.strip().lower()
    if declared.endswith("[]") and (element := _postgres(declared.removesuffix("[]"), "e")) is not None:
        return _array(column.name, quoted, *element)
    kind, query, travels, decode = _postgres(declared, quoted) or _as_text(quoted)
    return Transport(column.name, kind, query, travels, lambda place: decode(F.col(place)))


def from_sqlite(column: Column, quoted: str) -> Transport:
    """Return how a column of SQLite travels: by its declared type, whatever each value is."""
    kind = _sqlite_type(column.declared)
    if isinstance(kind, T.BinaryType):
        query = f"CAST({quoted} AS BLOB)"
        return Transport(column.name, kind, query, kind, F.col)
    # A real has seventeen digits; a decimal that was kept as one has fifteen that count.
    digits = 15 if isinstance(kind, T.DecimalType) else 17
    text = f"CASE typeof({quoted}) WHEN 'real' THEN printf('%!.{digits}g', {quoted}) ELSE CAST({quoted} AS TEXT) END"
    if isinstance(kind, T.TimestampType):
        zoned = _ZONED.format(quoted)
        text = f"CASE WHEN {quoted} IS NULL OR {zoned} THEN CAST({quoted} AS TEXT) ELSE {quoted} || '+00:00' END"
    if isinstance(kind, T.StringType):
        return Transport(column.name, kind, text, T.StringType(), F.col)
    return Transport(column.name, kind, text, T.StringType(), lambda place: _strict(place, kind, column.name))


def _postgres(declared: str, value: str) -> Route | None:
    """Give type, query, type on the way, and the way back; None for what travels as text."""
    plain = re.sub(r"\(\d+\)", "", declared)
    if declared in _AS_THEY_ARE:
        return _AS_THEY_ARE[declared], value, _AS_THEY_ARE[declared], _same
    if declared.startswith("numeric"):
        return _decimal(declared, value)
    if plain == "date":
        return T.DateType(), f"({value} - DATE '1970-01-01')", T.IntegerType(), F.date_from_unix_date
    if plain == "timestamp with time zone":
        return T.TimestampType(), _MICROS.format(value), T.LongType(), F.timestamp_micros
    if plain == "timestamp without time zone":
        return T.TimestampNTZType(), _MICROS.format(value), T.LongType(), _local
    return _as_text(value) if plain in _TEXTS else None


def _decimal(declared: str, value: str) -> Route | None:
    number = _NUMERIC.fullmatch(declared)
    if number is None:
        # Without a limit: eighteen decimals as Spark takes it, and an error instead of a rounded value.
        fits = f"{value} IS NULL OR {value} = round({value}, 18)"
        # The text depends on the value, or Postgres would evaluate it for every query, but it must not show it.
        wrong = f"(left({value}::text, 0) || 'a value with more than 18 decimals')::numeric"
        query = f"(CASE WHEN {fits} THEN {value} ELSE {wrong} END)"
        return T.DecimalType(38, 18), f"{query}::numeric(38,18)", T.DecimalType(38, 18), _same
    precision, scale = int(number[1]), int(number[2])
    if precision > 38 or not 0 <= scale <= precision:
        return None
    return T.DecimalType(precision, scale), value, T.DecimalType(precision, scale), _same


def _as_text(value: str) -> Route:
    # Compared by bytes, as Spark does, wherever a comparison is handed down.
    return T.StringType(), f'({value}::text COLLATE "C")', T.StringType(), _same


def _array(
    name: str,
    quoted: str,
    kind: T.DataType,
    query: str,
    travels: T.DataType,
    decode: Callable[[SparkColumn], SparkColumn],
) -> Transport:
    if isinstance(kind, T.BinaryType):
        query = "translate(encode(e, 'base64'), E'\\n', '')"  # as Spark reads bytes in JSON
    elements = f"array(SELECT {query} FROM unnest({quoted}) WITH ORDINALITY AS u(e, n) ORDER BY n)"  # noqa: S608 - quoted
    # An array of arrays would lose its shape: what is sent instead is not JSON, which stops the run.
    nested = f"WHEN array_ndims({quoted}) > 1 THEN 'an array of arrays'"
    text = f"CASE {nested} WHEN {quoted} IS NOT NULL THEN array_to_json({elements})::text END"
    schema = T.ArrayType(travels).json()

    def decoded(place: str) -> SparkColumn:
        values = F.from_json(F.col(place), schema, {"mode": "FAILFAST"})
        return values if decode is _same else F.transform(values, decode)

    return Transport(name, T.ArrayType(kind), text, T.StringType(), decoded)


def _sqlite_type(declared: str) -> T.DataType:
    """Return the type of a column; SQLite's integers have 64 bits and its reals too, whatever they are called."""
    kind = spark_type(declared, "sqlite") if declared else None
    if "int" in declared.lower() and isinstance(kind, T.ByteType | T.ShortType | T.IntegerType | T.LongType):
        return T.LongType()
    if isinstance(kind, T.FloatType):
        return T.DoubleType()
    return kind if kind is not None else T.StringType()


def _strict(place: str, kind: T.DataType, name: str) -> SparkColumn:
    """Read a text as a type; a text that is not such a value stops the run instead of becoming null."""
    text = F.col(place)
    if isinstance(kind, T.BooleanType):
        value = F.expr(f"try_cast(try_cast({place} AS decimal(38,0)) AS boolean)")
    else:
        value = F.expr(f"try_cast({place} AS {kind.simpleString()})")
    # The value itself may be personal: a user with access finds it in the table.
    wrong = F.raise_error(F.lit(f"column {name} holds a value that cannot be read as {kind.simpleString()}"))
    return F.when(text.isNull() | value.isNotNull(), value).otherwise(wrong.cast(kind))


def _same(value: SparkColumn) -> SparkColumn:
    return value


def _local(micros: SparkColumn) -> SparkColumn:
    """Turn microseconds into a local time, whatever zone the session has."""
    seconds = (micros.cast("decimal(19,0)") / F.lit(1_000_000).cast("decimal(7,0)")).cast("decimal(18,6)")
    return F.expr(_EPOCH_NTZ) + F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
