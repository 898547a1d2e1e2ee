"""The types that the partition column and the dimensions of a table must have, whatever the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from twice.errors import SchemaRefused

if TYPE_CHECKING:
    from twice.model.tables import Table


def require_places(table: Table, kinds: Mapping[str, T.DataType]) -> None:
    """Refuse a partition column that is not a date or instant, and a dimension that is not a string."""
    if table.partition:
        column, grain = table.partition.column, table.partition.grain
        wanted = T.TimestampType() if grain.sub_day else T.DateType()
        if not isinstance(kinds[column], type(wanted)):
            raise SchemaRefused(
                f"{table.name}: partition column {column} is {kinds[column].simpleString()}, but a partition "
                f"by {grain} is a {wanted.simpleString()}",
                next_step=f"cast {column} in the step",
            )
    for name in table.dimensions:
        if not isinstance(kinds[name], T.StringType):
            raise SchemaRefused(
                f"{table.name}: dimension {name} is {kinds[name].simpleString()}, but dimensions are strings",
                next_step=f"cast {name} to string in the step",
            )
