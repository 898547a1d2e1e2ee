"""What a merged table holds after all its windows were merged once, in order, into an empty table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from twice.content.rows import column, row_hashes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Holds the window that brought a row, as an ISO date: it sorts by time.
BROUGHT_BY = "_twice_brought_by"
_RANK = "_twice_rank"
_HASHES = ("_twice_h1", "_twice_h2")


def brought(rows: DataFrame, window: str) -> DataFrame:
    """Mark rows with the window that brought them."""
    return rows.withColumn(BROUGHT_BY, F.lit(window))


def newest_of_all(rows: DataFrame, key: Sequence[str], version: str) -> DataFrame:
    """Keep the highest version of each key; of equal rows, the one that the earliest window brought.

    Rows of one key and version that differ all stay: no window decides between them.
    """
    by_version = Window.partitionBy(*map(column, key)).orderBy(column(version).desc())
    ranked = rows.withColumn(_RANK, F.rank().over(by_version))
    return earliest_of_equal(ranked.where(F.col(_RANK) == 1).drop(_RANK), key)


def earliest_of_equal(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Collapse rows that are equal but for their window into the earliest; rows of one key that differ all stay."""
    hashes = row_hashes(rows.drop(BROUGHT_BY).schema)
    hashed = rows.select("*", *(found.alias(name) for found, name in zip(hashes, _HASHES, strict=True)))
    return _first(hashed, [*key, *_HASHES]).drop(*_HASHES)


def earliest_of_all(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keep what the earliest window brought for each key; rows of that window that differ all stay."""
    by_window = Window.partitionBy(*map(column, key)).orderBy(F.col(BROUGHT_BY))
    ranked = rows.withColumn(_RANK, F.rank().over(by_window))
    return earliest_of_equal(ranked.where(F.col(_RANK) == 1).drop(_RANK), key)


def _first(rows: DataFrame, same: Sequence[str]) -> DataFrame:
    by_window = Window.partitionBy(*map(column, same)).orderBy(F.col(BROUGHT_BY))
    return rows.withColumn(_RANK, F.row_number().over(by_window)).where(F.col(_RANK) == 1).drop(_RANK)
