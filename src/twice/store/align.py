"""A result's columns in the order of a table's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField


def aligned(rows: DataFrame, fields: Iterable[StructField]) -> DataFrame:
    """Put columns in the order of the fields; one that the rows do not have is null."""
    fields, there = list(fields), rows.columns
    if there == [field.name for field in fields]:
        return rows
    return rows.select(
        *(
            column(field.name) if field.name in there else F.lit(None).cast(field.dataType).alias(field.name)
            for field in fields
        )
    )
