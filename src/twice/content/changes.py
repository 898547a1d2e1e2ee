"""What a merge would really change: the source cut down to one row per key, then to the rows that change something.

`newest` keeps the highest version of each key. `compare` joins it with the target and sorts
every row into one of: new, newer, corrected (equal version, rewritten by the same window),
same, older, disputed (equal version, other content, another window), reused (created after
its key was deleted).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from twice.content.rows import column, row_hashes
from twice.model.framework import WINDOW_COLUMN
from twice.model.patterns import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The kinds that change the target.
WRITTEN = ("new", "newer", "corrected")

_RANK = "_twice_rank"
_KIND = "_twice_kind"
_DELETED = "_twice_deleted"
_HASHES = ("_twice_h1", "_twice_h2")


def newest(source: DataFrame, key: Sequence[str], version: str) -> DataFrame:
    """Keep the rows with the highest version of their key; equal rows collapse into one.

    Rows of one key and version that differ all stay: `disputed_in_source` finds them.
    """
    by_version = Window.partitionBy(*map(column, key)).orderBy(column(version).desc())
    ranked = source.withColumn(_RANK, F.rank().over(by_version))
    return _distinct(ranked.where(F.col(_RANK) == 1).drop(_RANK), key)


def distinct_rows(source: DataFrame, key: Sequence[str]) -> DataFrame:
    """Collapse equal rows; rows of one key that differ all stay."""
    return _distinct(source, key)


def disputed_in_source(source: DataFrame, key: Sequence[str], limit: int) -> list[dict[str, object]]:
    """Name keys that still have more than one row."""
    keys = [column(name) for name in key]
    found = source.groupBy(*keys).count().where(F.col("count") > 1).orderBy(*keys).limit(limit)
    return [row.asDict(recursive=True) for row in found.collect()]


def reused_in_source(source: DataFrame, key: Sequence[str], merge: Merge, limit: int) -> list[dict[str, object]]:
    """Name keys of which the source itself holds the deletion of one thing and the creation of a later one."""
    if not merge.tombstone or not merge.created:
        return []
    deleted = F.max(F.when(column(merge.tombstone), column(merge.version)))
    marked = source.select("*", deleted.over(Window.partitionBy(*map(column, key))).alias(_DELETED))
    found = marked.where(_is_live(merge.tombstone) & (column(merge.created) > F.col(_DELETED)))
    keys = [column(name) for name in key]
    return [row.asDict(recursive=True) for row in found.select(*keys).distinct().orderBy(*keys).limit(limit).collect()]


def _is_live(tombstone: str) -> Column:
    return ~F.coalesce(column(tombstone), F.lit(False))


def compare(
    source: DataFrame, target: DataFrame, *, matched: Sequence[str], merge: Merge | None, window: str
) -> DataFrame:
    """Return the source rows with a `kind` column that says what each would do to the target."""
    ours = source.select("*", *_hash_columns(source, source.columns))
    # A column that the table has gained since that version is null in all of its rows.
    gained = [field for field in source.schema.fields if field.name not in target.columns]
    target = target.select("*", *(F.lit(None).cast(field.dataType).alias(field.name) for field in gained))
    content = [name for name in target.columns if name in source.columns]
    version = merge.version if merge else None
    tombstone = merge.tombstone if merge and merge.created else None
    known = target.select(
        *(column(name).alias(f"_twice_t_{i}") for i, name in enumerate(matched)),
        *(h.alias(f"_twice_t{name}") for h, name in zip(row_hashes_of(target, content), _HASHES, strict=True)),
        (column(version) if version else F.lit(0)).alias("_twice_t_version"),
        (column(tombstone) if tombstone else F.lit(False)).alias("_twice_t_deleted"),
        (F.col(WINDOW_COLUMN) if WINDOW_COLUMN in target.columns else F.lit(None)).alias("_twice_t_window"),
        F.lit(True).alias("_twice_t_there"),
    )
    same_key = reduce(
        lambda left, right: left & right,
        (column(name) == F.col(f"_twice_t_{i}") for i, name in enumerate(matched)),
    )
    joined = ours.join(known, same_key, "left")
    equal = reduce(lambda a, b: a & b, (F.col(h) == F.col(f"_twice_t{h}") for h in _HASHES))
    kind = F.when(F.col("_twice_t_there").isNull(), "new").when(equal, "same")
    if merge and merge.created and tombstone:
        later = column(merge.created) > F.col("_twice_t_version")
        kind = kind.when(F.col("_twice_t_deleted") & _is_live(tombstone) & later, "reused")
    if version:
        kind = (
            kind.when(F.col("_twice_t_version").isNull() | (column(version) > F.col("_twice_t_version")), "newer")
            .when(column(version) < F.col("_twice_t_version"), "older")
            .when(F.col("_twice_t_window") == window, "corrected")
        )
    return joined.select(*map(column, source.columns), kind.otherwise("disputed").alias(_KIND))


def kinds(compared: DataFrame) -> dict[str, int]:
    """Count the compared rows by kind."""
    return {row[_KIND]: row["count"] for row in compared.groupBy(_KIND).count().collect()}


def of_kind(compared: DataFrame, *wanted: str) -> DataFrame:
    """Select compared rows of some kinds, without the kind."""
    return compared.where(F.col(_KIND).isin(list(wanted))).drop(_KIND)


def row_hashes_of(df: DataFrame, columns: Sequence[str]) -> tuple[Column, Column]:
    """Hash rows over those columns, which may include none of the framework's."""
    return row_hashes(df.select(*map(column, columns)).schema)


def _hash_columns(df: DataFrame, columns: Sequence[str]) -> list[Column]:
    return [h.alias(name) for h, name in zip(row_hashes_of(df, columns), _HASHES, strict=True)]


def _distinct(df: DataFrame, key: Sequence[str]) -> DataFrame:
    """Drop rows that equal another one in content; maps and nesting included, so by hash."""
    return df.select("*", *_hash_columns(df, df.columns)).dropDuplicates([*key, *_HASHES]).drop(*_HASHES)
