"""Spark's types and the columns that hold them, both ways.

Postgres has a type for nearly everything. SQLite keeps what it is given: numbers as numbers, dates and
times as ISO texts that sort like the times they name, a decimal of more than fifteen digits as the bytes of
its text (a number would lose the last ones). What is nested is JSON, except arrays of plain values on Postgres.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlalchemy.types import TypeEngine, UserDefinedType

from twice.content.nullability import plain
from twice.content.rows import column
from twice.errors import SchemaRefused

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

Dialect = Literal["postgres", "sqlite", "other"]

# Instants and local times inside JSON: exact to the microsecond, whatever the session's time zone is.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

_SCALARS: Mapping[type[T.DataType], Mapping[Dialect, str]] = {
    T.BooleanType: {"postgres": "boolean", "sqlite": "BOOLEAN", "other": "BOOLEAN"},
    T.ByteType: {"postgres": "smallint", "sqlite": "SMALLINT", "other": "SMALLINT"},
    T.ShortType: {"postgres": "smallint", "sqlite": "SMALLINT", "other": "SMALLINT"},
    T.IntegerType: {"postgres": "integer", "sqlite": "INTEGER", "other": "INTEGER"},
    T.LongType: {"postgres": "bigint", "sqlite": "BIGINT", "other": "BIGINT"},
    T.FloatType: {"postgres": "real", "sqlite": "FLOAT", "other": "REAL"},
    T.DoubleType: {"postgres": "double precision", "sqlite": "DOUBLE", "other": "DOUBLE PRECISION"},
    T.StringType: {"postgres": "text", "sqlite": "TEXT", "other": "TEXT"},
    T.BinaryType: {"postgres": "bytea", "sqlite": "BLOB", "other": "BLOB"},
    T.DateType: {"postgres": "date", "sqlite": "DATE", "other": "DATE"},
    T.TimestampType: {"postgres": "timestamp with time zone", "sqlite": "TIMESTAMPTZ", "other": "TIMESTAMP"},
    T.TimestampNTZType: {"postgres": "timestamp without time zone", "sqlite": "TIMESTAMP", "other": "TIMESTAMP"},
}
_NESTED: Mapping[Dialect, str] = {"postgres": "jsonb", "sqlite": "JSON", "other": "TEXT"}

# Names that databases give to types, read from the left; arguments and case do not matter.
_KNOWN: tuple[tuple[str, T.DataType], ...] = (
    ("timestamp with time zone", T.TimestampType()),
    ("timestamptz", T.TimestampType()),
    ("timestamp_ltz", T.TimestampType()),
    ("timestamp", T.TimestampNTZType()),
    ("datetime", T.TimestampNTZType()),
    ("date", T.DateType()),
    ("bool", T.BooleanType()),
    ("tinyint", T.ByteType()),
    ("smallint", T.ShortType()),
    ("int2", T.ShortType()),
    ("bigint", T.LongType()),
    ("int8", T.LongType()),
    ("int", T.IntegerType()),
    ("double", T.DoubleType()),
    ("float8", T.DoubleType()),
    ("real", T.FloatType()),
    ("float", T.FloatType()),
    ("bytea", T.BinaryType()),
    ("blob", T.BinaryType()),
    ("binary", T.BinaryType()),
    ("varbinary", T.BinaryType()),
    ("text", T.StringType()),
    ("varchar", T.StringType()),
    ("character", T.StringType()),
    ("char", T.StringType()),
    ("string", T.StringType()),
    ("json", T.StringType()),
    ("uuid", T.StringType()),
    ("citext", T.StringType()),
)
_DECIMAL = re.compile(r"(?:numeric|decimal|number)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_WIDER: Mapping[str, tuple[str, ...]] = {
    "smallint": ("smallint", "integer", "bigint"),
    "integer": ("integer", "bigint"),
    "real": ("real", "double precision"),
    "text": ("text", "character varying"),
}


@dataclass(frozen=True)
class Column:
    """A column of a live table, with its type as the database declares it."""

    name: str
    declared: str
    nullable: bool = True


class Declared(UserDefinedType[Any]):
    """A column type by its name in the database; values go in as they are."""

    cache_ok = True

    def __init__(self, text: str) -> None:
        self.text = text

    def get_col_spec(self, **_: object) -> str:
        """Return the type as a column definition spells it."""
        return self.text


def column_type(kind: T.DataType, dialect: Dialect) -> TypeEngine[Any]:
    """Return the column type that holds every value of a Spark type."""
    return Declared(declared_type(kind, dialect))


def declared_type(kind: T.DataType, dialect: Dialect) -> str:
    """Name the column type that holds every value of a Spark type; a type without an equivalent is refused."""
    if isinstance(kind, T.DecimalType):
        name = "numeric" if dialect == "postgres" else "DECIMAL"
        return f"{name}({kind.precision},{kind.scale})"
    if type(kind) in _SCALARS:
        return _SCALARS[type(kind)][dialect]
    if isinstance(kind, T.StringType):  # with a collation, or a length that Spark has already checked
        return _SCALARS[T.StringType][dialect]
    if isinstance(kind, T.ArrayType) and dialect == "postgres" and is_plain(kind.elementType):
        return f"{declared_type(kind.elementType, dialect)}[]"
    if isinstance(kind, T.ArrayType | T.StructType | T.MapType):
        _require_json(kind, dialect)
        return _NESTED[dialect]
    raise SchemaRefused(
        f"the type {kind.simpleString()} has no exact equivalent in a SQL database",
        unchanged="nothing was changed",
        next_step="cast it in the step, to a string or a number",
    )


def is_plain(kind: T.DataType) -> bool:
    """Return whether a type is not nested."""
    return isinstance(kind, T.DecimalType | T.StringType) or type(kind) in _SCALARS


def is_json(kind: T.DataType, dialect: Dialect) -> bool:
    """Return whether a type is kept as JSON."""
    return not is_plain(kind) and not (dialect == "postgres" and is_array(kind))


def is_array(kind: T.DataType) -> bool:
    """Return whether a type is an array of plain values."""
    return isinstance(kind, T.ArrayType) and is_plain(kind.elementType)


def spark_type(declared: str, dialect: Dialect) -> T.DataType | None:
    """Return the Spark type of a column by the name of its type; None for one that Spark has no type for."""
    text = declared.strip().lower()
    if dialect == "postgres" and text.endswith("[]"):
        inner = spark_type(text.removesuffix("[]"), dialect)
        return T.ArrayType(inner) if inner is not None else None
    if number := _DECIMAL.fullmatch(text):
        return T.DecimalType(int(number[1]), int(number[2] or 0)) if number[1] else T.DecimalType(38, 18)
    if text.startswith("timestamp") and text.endswith("with time zone"):
        return T.TimestampType()
    return next((kind for name, kind in _KNOWN if text.startswith(name)), None)


def fits(declared: str, kind: T.DataType, dialect: Dialect) -> bool:
    """Return whether a live column holds every value of a Spark type and gives it back as it was."""
    text, wanted = declared.strip().lower(), declared_type(kind, dialect).lower()
    if isinstance(kind, T.DecimalType) and (number := _DECIMAL.fullmatch(text)):
        if not number[1]:  # numeric without a limit
            return True
        precision, scale = int(number[1]), int(number[2] or 0)
        return scale >= kind.scale and precision - scale >= kind.precision - kind.scale
    if dialect == "postgres":
        if wanted.endswith("[]"):
            return text == wanted
        text = re.sub(r"^(character varying)\(\d+\)$", r"\1", text)
        return text in _WIDER.get(wanted, (wanted,))
    if dialect == "sqlite":
        return _affinity(text) == _affinity(wanted) or (_affinity(wanted) == "numeric" and "text" in text)
    found = spark_type(text, dialect)
    return found is not None and type(found) is type(spark_type(wanted, dialect))


def json_text(value: SparkColumn) -> SparkColumn:
    """Return a nested value as JSON."""
    return F.to_json(value, dict(JSON_OPTIONS))


def restored(rows: DataFrame, known: T.StructType) -> DataFrame:
    """Give the columns of a table that twice wrote the types that its step made, and leave out others."""
    found = {field.name: field.dataType for field in rows.schema.fields}
    return rows.select(
        *(
            _restore(field.name, found[field.name], field.dataType).alias(field.name)
            for field in known.fields
            if field.name in found
        )
    )


def described(schema: T.StructType) -> str:
    """Return a schema so that `read_schema` can read it."""
    kept = plain(schema)
    return kept.json()


def read_schema(text: str) -> T.StructType:
    """Read what `described` wrote."""
    return T.StructType.fromJson(json.loads(text))


def _restore(name: str, found: T.DataType, wanted: T.DataType) -> SparkColumn:
    value = column(name)
    if plain(found) == plain(wanted):
        return value
    if isinstance(found, T.StringType) and not is_plain(wanted):
        return F.from_json(value, wanted.json(), dict(JSON_OPTIONS))
    if isinstance(found, T.TimestampNTZType) and isinstance(wanted, T.TimestampType):
        # Written as UTC without saying so: the session's zone must not decide what it means.
        return F.concat(value.cast("string"), F.lit("+00:00")).cast(wanted)
    return value.cast(wanted)


def _require_json(kind: T.DataType, dialect: Dialect) -> None:
    """Refuse what JSON would not give back: keys that are not strings, types without a text of their own."""
    if isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise SchemaRefused(
                f"the type {kind.simpleString()} has no exact equivalent in a SQL database: keys of JSON are strings",
                unchanged="nothing was changed",
                next_step="cast the map's keys to string in the step",
            )
        _require_json(kind.valueType, dialect)
    elif isinstance(kind, T.ArrayType):
        _require_json(kind.elementType, dialect)
    elif isinstance(kind, T.StructType):
        for field in kind.fields:
            _require_json(field.dataType, dialect)
    else:
        declared_type(kind, dialect)


def _affinity(declared: str) -> str:
    """Return how SQLite stores values of a column, by SQLite's own rule."""
    for words, affinity in (
        (("int",), "integer"),
        (("char", "clob", "text"), "text"),
        (("blob",), "blob"),
        (("real", "floa", "doub"), "real"),
    ):
        if any(word in declared for word in words):
            return affinity
    return "numeric"
