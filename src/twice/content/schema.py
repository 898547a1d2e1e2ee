"""What of a schema is content: names and types, not order, nullability or comments."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise

from pyspark.sql import types as T

from twice.errors import DefinitionError
from twice.model.framework import FRAMEWORK_COLUMNS

# Types that xxhash64 hashes by value, without a conversion. Newer types are looked up by name.
_SCALARS = tuple(
    getattr(T, name)
    for name in (
        *("NullType", "StringType", "CharType", "VarcharType", "BinaryType", "BooleanType"),
        *("ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType", "DecimalType"),
        *("DateType", "TimestampType", "TimestampNTZType", "TimeType"),
        *("DayTimeIntervalType", "YearMonthIntervalType", "CalendarIntervalType"),
    )
    if hasattr(T, name)
)


def content_fields(schema: T.StructType) -> list[T.StructField]:
    """Give the columns that are content, by name; the framework's own are left out."""
    fields = [field for field in schema.fields if field.name not in FRAMEWORK_COLUMNS]
    names = sorted(field.name for field in fields)
    for name, following in pairwise(names):
        if name == following:
            raise DefinitionError(f"the result has two columns named {name!r}: rename or drop one of them")
    return sorted(fields, key=lambda field: field.name)


def schema_fingerprint(schema: T.StructType) -> str:
    """Give a short hash of names and types; order, nullability and comments do not matter."""
    described = [[field.name, _describe(field.dataType)] for field in content_fields(schema)]
    text = json.dumps(described, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _describe(kind: T.DataType) -> object:
    if isinstance(kind, T.StructType):
        fields = sorted(kind.fields, key=lambda field: field.name)
        return {"struct": [[field.name, _describe(field.dataType)] for field in fields]}
    if isinstance(kind, T.ArrayType):
        return {"array": _describe(kind.elementType)}
    if isinstance(kind, T.MapType):
        return {"map": [_describe(kind.keyType), _describe(kind.valueType)]}
    return kind.simpleString()


def order_sensitive(schema: T.StructType) -> list[str]:
    """Name the columns that hold float or double, at any depth: a sum of those depends on row order."""
    return [field.name for field in content_fields(schema) if _has_float(field.dataType)]


def _has_float(kind: T.DataType) -> bool:
    return isinstance(kind, (T.FloatType, T.DoubleType)) or any(map(_has_float, _inner(kind)))


def _inner(kind: T.DataType) -> list[T.DataType]:
    if isinstance(kind, T.StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, T.ArrayType):
        return [kind.elementType]
    if isinstance(kind, T.MapType):
        return [kind.keyType, kind.valueType]
    return []


def refuse_unhashable(field: T.StructField) -> None:
    """Raise when a column holds a type, at any depth, whose content has no canonical form."""
    pending = [field.dataType]
    while pending:
        kind = pending.pop()
        inner = _inner(kind)
        if not inner and not isinstance(kind, (*_SCALARS, T.StructType)):
            raise DefinitionError(
                f"column {field.name!r} holds the type {kind.simpleString()}, whose content cannot be "
                "compared between runs: cast it to a string or a struct in the step"
            )
        pending.extend(inner)
