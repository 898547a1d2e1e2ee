"""Two 64-bit hashes per row that see every value, null and nesting.

Spark's xxhash64 alone is not enough: it skips nulls, forgets where an array ends and refuses maps. So each
value is hashed behind a flag for whether it is null, arrays and maps behind their length, maps
sorted by key, struct fields by name. docs/digest.md has the formula.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.schema import content_fields, order_sensitive, refuse_unhashable, schema_fingerprint
from twice.errors import DefinitionError
from twice.model.names import quote

__all__ = ["order_sensitive", "row_hashes", "schema_fingerprint"]

SEEDS = (1, 2)
# Flags per bigint: the sign bit stays clear.
_FLAGS = 60
# Hashed as they are; a string only without a collation, which decides what is equal, not what is stored.
_PLAIN = (
    T.BinaryType,
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)


def column(name: str) -> Column:
    """Refer to a top-level column by its exact name, dots and backticks included."""
    return F.col("`" + name.replace("`", "``") + "`")


def row_hashes(schema: T.StructType, columns: Sequence[str] | None = None) -> tuple[Column, Column]:
    """Give two bigint hashes of a row's content, over all columns or the named ones, in name order."""
    fields = content_fields(schema)
    if columns is not None:
        known = {field.name for field in fields}
        for name in columns:
            if name not in known:
                raise DefinitionError(f"there is no column {name!r}; there are: {', '.join(sorted(known))}")
        fields = [field for field in fields if field.name in set(columns)]
    for field in fields:
        refuse_unhashable(field)
    names = [quote(field.name) for field in fields]
    masks = [_mask(names[start : start + _FLAGS]) for start in range(0, len(names), _FLAGS)]
    if all(type(field.dataType) in _PLAIN or field.dataType.simpleString() == "string" for field in fields):
        # One text for Spark to read costs less than the many calls that build the same expression.
        texts = [f"xxhash64({', '.join([f'{seed}L', *masks, *names])})" for seed in SEEDS]
        return F.expr(texts[0]), F.expr(texts[1])
    values = [part for field in fields for part in _parts(column(field.name), field.dataType)]
    parts = [F.expr(mask) for mask in masks] + values
    first, second = (F.xxhash64(F.lit(seed).cast("bigint"), *parts) for seed in SEEDS)
    return first, second


def _mask(names: Sequence[str]) -> str:
    """Return in SQL which of the columns are null, as the bits of one bigint."""
    bits = (f"CASE WHEN {name} IS NULL THEN {1 << position}L ELSE 0L END" for position, name in enumerate(names))
    return f"({' | '.join(bits)})"


def _parts(value: Column, kind: T.DataType) -> list[Column]:
    """The hashable pieces of a value that is not null; the caller has hashed the null flag."""
    if isinstance(kind, T.StructType):
        fields = sorted(kind.fields, key=lambda field: field.name)
        return [part for field in fields for part in _flagged(value.getField(field.name), field.dataType)]
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        return [F.array_size(value), F.transform(value, lambda item: F.struct(*_flagged(item, element)))]
    if isinstance(kind, T.MapType):
        key, item = kind.keyType, kind.valueType
        # Entries become structs of pieces first: those can be sorted, map values cannot.
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(*_flagged(entry["key"], key), *_flagged(entry["value"], item)),
        )
        return [F.array_size(entries), F.sort_array(entries)]
    if isinstance(kind, T.NullType):
        return []
    if isinstance(kind, (T.StringType, T.CharType, T.VarcharType)):
        # A collation decides what is equal, not what is stored.
        return [value if kind.simpleString() == "string" else value.cast("string")]
    return [value]


def _flagged(value: Column, kind: T.DataType) -> list[Column]:
    return [value.isNull(), *_parts(value, kind)]
