"""The rules of a table's columns, which every store keeps: each has a type, columns are added, nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from twice.content.nullability import plain
from twice.content.places import require_places
from twice.errors import SchemaRefused
from twice.model.names import quote

if TYPE_CHECKING:
    from twice.model.tables import Table

AS_IT_WAS = "the table is as it was"


def typed_columns(table: Table, schema: T.StructType) -> dict[str, T.DataType]:
    """Return the types by column; refuse a column without one, and a table without those that its contract names."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, kind in kinds.items():
        if isinstance(kind, T.NullType):
            raise SchemaRefused(
                f"{table.name}: column {name} is null in every row and has no type",
                next_step=f"give it one in the step: cast({name} as …)",
            )
    require_places(table, kinds)
    return kinds


def require_distinct(table: Table, names: Sequence[str], readers: str) -> None:
    """Refuse columns that differ in case alone, for a store whose readers do not tell them apart."""
    lowered = [name.lower() for name in names]
    if alike := sorted(name for name in names if lowered.count(name.lower()) > 1):
        raise SchemaRefused(
            f"{table.name}: the columns {', '.join(alike)} differ only in upper and lower case, which {readers} do not "
            "tell apart",
            next_step="rename one of them in the step",
        )


def nullable(schema: T.StructType) -> T.StructType:
    """Return columns as tables are created with: everything may be null, comments are left out."""
    return T.StructType([T.StructField(field.name, plain(field.dataType), True) for field in schema.fields])


def columns_gone(table: Table, gone: Sequence[str], next_step: str) -> SchemaRefused:
    """Return the error that a step no longer returns columns that the table has."""
    return SchemaRefused(
        f"{table.name} has the column{'s' if len(gone) > 1 else ''} {', '.join(gone)}, which the step no longer "
        "returns: twice never drops a column by itself",
        unchanged=AS_IT_WAS,
        next_step=next_step,
    )


def other_type(table: Table, name: str, was: str, kind: T.DataType, next_step: str = "") -> SchemaRefused:
    """Return the error that a step returns another type than the column has."""
    return SchemaRefused(
        f"{table.name}: column {name} is {was}, but the step returns {kind.simpleString()}",
        unchanged=AS_IT_WAS,
        next_step=next_step
        or f"cast it in the step: cast({quote(name)} as {was}); to change the type, add a new column next to {name} "
        "and rerun the dates that matter",
    )
