"""Types without their nullability, which says nothing about content."""

from __future__ import annotations

from pyspark.sql import types as T


def plain(kind: T.DataType) -> T.DataType:
    """Return the type with everything inside it nullable and without comments."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, plain(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(plain(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(plain(kind.keyType), plain(kind.valueType))
    return kind
