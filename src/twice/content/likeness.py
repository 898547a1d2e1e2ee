"""Whether computed rows equal those that a table holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.digest import Digest
from twice.content.profile import profile
from twice.content.rows import column
from twice.content.schema import schema_fingerprint
from twice.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def shaped(rows: DataFrame, schema: StructType) -> DataFrame:
    """Give rows the columns and types that the table stores them with."""
    known = {field.name: field.dataType for field in rows.schema.fields}
    return rows.select(
        *(
            quote(field.name)
            if known.get(field.name) == field.dataType
            else (column(field.name) if field.name in known else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in schema.fields
        )
    )


def digest_of(rows: DataFrame) -> Digest:
    """Return the content of all rows as one digest."""
    found = profile(rows, partition=(), key=())
    return next((seen.digest for seen in found.values()), Digest.empty(schema_fingerprint(rows.schema)))


def nearly_same(rows: DataFrame, others: DataFrame, inexact: Sequence[str]) -> bool:
    """Compare rows exactly, except columns of float and double: those by their number of values and their sums.

    The last digits of such sums depend on how rows are spread over tasks.
    """
    return digest_of(rows.drop(*inexact)) == digest_of(others.drop(*inexact)) and nearly(rows, others, inexact)


def nearly(rows: DataFrame, others: DataFrame, names: Sequence[str]) -> bool:
    """Compare columns of float and double by how many values they have, and their sums."""
    plain = [name for name in names if rows.schema[name].dataType.typeName() in {"float", "double"}]
    asked = [
        part
        for name in plain
        for part in (F.count(column(name)), F.sum(F.nanvl(column(name).cast("double"), F.lit(0.0))))
    ]
    if not asked:
        return True
    one, other = (each.agg(*asked).collect()[0] for each in (rows, others))
    pairs = [(left or 0, right or 0) for left, right in zip(one, other, strict=True)]
    return all(left == right or isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) for left, right in pairs)
