"""What the engine computes over staged rows: digest, null keys, gates and key uniqueness, in one pass.

Rows are grouped by partition, dimensions and a 64-bit hash of the key, which yields sums, counts and the
number of rows per hash; a second grouping adds them up by partition, so that the driver collects one row
for each partition, however many dimension values there are. Equal keys have equal hashes, so no duplicate
is missed. Only when some hash occurs twice are the keys themselves grouped and counted. Where the keys
are known to be unique the rows are grouped by partition alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.digest import Digest
from twice.content.rows import row_hashes, schema_fingerprint
from twice.errors import DefinitionError
from twice.model.names import quote

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HALF = 1 << 31
_BIAS = 1 << 63
KEY_HASH = "_twice_k"
# Both halves of a hash lie around zero, so that a bigint sum stays small however many rows there are.
_HALF_SUMS = {
    name: f"sum({half})"
    for place, value in enumerate(("_twice_h0", "_twice_h1"))
    for name, half in (
        (f"s{2 * place}", f"shiftright({value}, 32)"),
        (f"s{2 * place + 1}", f"({value} & {2 * _HALF - 1}L) - {_HALF}L"),
    )
}


@dataclass(frozen=True)
class PartitionProfile:
    """What one partition of a result holds, and what is wrong with it."""

    digest: Digest
    duplicate_keys: int = 0
    null_keys: int = 0
    violations: Mapping[str, int] = field(default_factory=dict)


def profile(
    df: DataFrame,
    *,
    partition: Sequence[str],
    key: Sequence[str],
    dimensions: Sequence[str] = (),
    where: Column | None = None,
    violations: Mapping[str, Column] | None = None,
    unique: bool = False,
) -> dict[tuple[object, ...], PartitionProfile]:
    """Profile the rows; partitions without rows have no entry.

    `dimensions` are columns within which a key occurs once; a row with a null in one of them belongs to no
    partition and is left out, as is every row outside `where`. `unique`: the keys are known to be
    unique, so that they need not be counted.

    `duplicate_keys` counts keys that occur more than once in their partition and dimensions, `null_keys` rows
    with a null in any key column, `violations` the rows for which the column is true. The rows are read again
    if there are duplicates: hand in a stored table, not a query that may answer differently.
    """
    violations = violations or {}
    _require(df.schema, [*partition, *dimensions, *key])
    df = df.where(where) if where is not None else df
    df = df.where(~_any_null(dimensions)) if dimensions else df
    everywhere = [*partition, *dimensions]
    places = [f"p{i}" for i in range(len(partition))]
    counted = bool(key) and not unique
    asked = hashed(df.schema, key, violations)
    if counted:
        asked.append(key_hash(df.schema, key, key))
    seen = df.select(*place_columns(df.schema, everywhere), *asked)
    sums = sums_of(violations)
    if counted:
        by_key = seen.groupBy(*(f"p{i}" for i in range(len(everywhere))), KEY_HASH).agg(*_named(sums))
        added = {name: f"sum({name})" for name in sums}
        repeated = f"count_if({KEY_HASH} IS NOT NULL AND n > 1)"
        grouped = by_key.groupBy(*places).agg(*_named({**added, "repeated": repeated}))
    else:
        grouped = seen.groupBy(*places).agg(*_named({**sums, "repeated": "0"}))
    rows = grouped.collect()
    duplicates = _duplicates(df, partition, [*dimensions, *key], key) if any(row["repeated"] for row in rows) else {}
    schema = schema_fingerprint(df.schema)
    result = {}
    for row in rows:
        if row["n"]:  # without partition columns, no rows are still one group
            place = place_of(row, df.schema, partition)
            result[place] = PartitionProfile(
                digest=digest_of(row, schema),
                duplicate_keys=duplicates.get(place, 0),
                null_keys=row["nulls"],
                violations={name: row[f"v{i}"] for i, name in enumerate(violations)},
            )
    return result


def hashed(schema: T.StructType, key: Sequence[str], violations: Mapping[str, Column]) -> list[Column]:
    """Return the expressions that are computed for each row, under names that no user's column has."""
    first, second = row_hashes(schema)
    asked = [first.alias("_twice_h0"), second.alias("_twice_h1"), _any_null(key).alias("_twice_nulls")]
    return asked + [bad.alias(f"_twice_v{i}") for i, bad in enumerate(violations.values())]


def sums_of(violations: Mapping[str, Column]) -> dict[str, str]:
    """Return the sums over what `hashed` computes, by name."""
    sums = {"n": "count(1)", **_HALF_SUMS, "nulls": "count_if(_twice_nulls)"}
    return sums | {f"v{i}": f"count_if(_twice_v{i})" for i in range(len(violations))}


def key_hash(schema: T.StructType, key: Sequence[str], columns: Sequence[str]) -> Column:
    """Hash columns; rows with a null in the key share the null hash and are not duplicates of each other."""
    return F.when(~_any_null(key), row_hashes(schema, columns)[0]).alias(KEY_HASH)


def _duplicates(
    df: DataFrame, partition: Sequence[str], within: Sequence[str], key: Sequence[str]
) -> dict[tuple[object, ...], int]:
    """Count keys that occur more than once, by the keys themselves and not by their hashes."""
    names = list(dict.fromkeys([*partition, *within]))
    each = df.where(~_any_null(key)).groupBy(*place_columns(df.schema, names)).agg(F.count(F.lit(1)).alias("n"))
    places = [f"p{i}" for i in range(len(partition))]
    rows = each.where(F.col("n") > 1).groupBy(*places).agg(F.count(F.lit(1)).alias("n")).collect()
    return {place_of(row, df.schema, partition): row["n"] for row in rows}


def _any_null(names: Sequence[str]) -> Column:
    return F.expr(" OR ".join(f"{quote(name)} IS NULL" for name in names) or "false")


def place_columns(schema: T.StructType, names: Sequence[str]) -> list[Column]:
    """Name the columns that tell partitions apart `p0`, `p1`, …, so that rows can be grouped by them."""
    return [F.expr(f"{_comparable(schema, name)} AS p{i}") for i, name in enumerate(names)]


def place_of(row: Row, schema: T.StructType, names: Sequence[str]) -> tuple[object, ...]:
    """Return the values of those columns, as Python knows them."""
    return tuple(_python(row[f"p{i}"], schema[name].dataType) for i, name in enumerate(names))


def _named(sums: Mapping[str, str]) -> list[Column]:
    # A text for Spark to read costs less than the calls that build the same expression.
    return [F.expr(f"{text} AS {name}") for name, text in sums.items()]


def digest_of(row: Row | Mapping[str, Any], schema: str) -> Digest:
    """Return the digest that sums over rows make."""
    rows = row["n"]
    if not rows:  # sums of nothing are null
        return Digest.empty(schema)
    sum1, sum2 = ((row[f"s{high}"] << 32) + row[f"s{high + 1}"] + rows * (_HALF + _BIAS) for high in (0, 2))
    return Digest(rows, sum1, sum2, schema)


def duplicate_samples(
    df: DataFrame, partition: Sequence[str], key: Sequence[str], limit: int = 5
) -> list[dict[str, Any]]:
    """Return keys that occur more than once in their partition; `_rows` is how often each does."""
    return _samples(df.where(~_any_null(key)), partition, key, F.col("_rows") > 1, limit)


def null_key_samples(
    df: DataFrame, partition: Sequence[str], key: Sequence[str], limit: int = 5
) -> list[dict[str, Any]]:
    """Return keys that hold a null; `_rows` is how many rows share each."""
    return _samples(df.where(_any_null(key)), partition, key, F.lit(True), limit)


def _samples(
    df: DataFrame, partition: Sequence[str], key: Sequence[str], having: Column, limit: int
) -> list[dict[str, Any]]:
    names = list(dict.fromkeys([*partition, *key]))
    _require(df.schema, names)
    # Sorted, so that the same rows give the same message.
    found = (
        df.groupBy(*place_columns(df.schema, names))
        .agg(F.count(F.lit(1)).alias("_rows"))
        .where(having)
        .orderBy(*(f"p{i}" for i in range(len(names))))
        .limit(limit)
        .collect()
    )
    keys = (place_of(row, df.schema, names) for row in found)
    return [{**dict(zip(names, key, strict=True)), "_rows": row["_rows"]} for key, row in zip(keys, found, strict=True)]


def _require(schema: T.StructType, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.names:
            known = ", ".join(sorted(schema.names))
            raise DefinitionError(f"there is no column {name!r}; there are: {known}")


def _comparable(schema: T.StructType, name: str) -> str:
    # PySpark collects timestamps in the local zone of the Python process; microseconds have no zone.
    value = quote(name)
    return f"unix_micros({value})" if isinstance(schema[name].dataType, T.TimestampType) else value


def _python(value: object, kind: T.DataType) -> object:
    if isinstance(kind, T.TimestampType) and isinstance(value, int):
        return _EPOCH + timedelta(microseconds=value)
    return value
