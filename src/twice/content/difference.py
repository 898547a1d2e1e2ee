"""What two versions of the same partitions have in common: rows, keys and sums, old against new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.profile import place_columns, place_of
from twice.content.rows import column, row_hashes

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target

Number = int | float | Decimal | None


@dataclass(frozen=True)
class Difference:
    """One partition, old against new; without a key a changed row is one removed and one added."""

    rows: tuple[int, int] = (0, 0)
    added: int = 0
    removed: int = 0
    changed: int = 0
    sums: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether no row differs."""
        return not (self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, object]:
        """Return the difference as JSON scalars."""
        return {
            "rows": list(self.rows),
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "sums": {name: [_plain(old), _plain(new)] for name, (old, new) in self.sums.items()},
        }

    def __add__(self, other: Difference) -> Difference:
        """Sum up two parts of one partition."""
        names = dict.fromkeys((*self.sums, *other.sums))
        none = (None, None)
        return Difference(
            (self.rows[0] + other.rows[0], self.rows[1] + other.rows[1]),
            self.added + other.added,
            self.removed + other.removed,
            self.changed + other.changed,
            {name: _both(self.sums.get(name, none), other.sums.get(name, none)) for name in names},
        )


def _plain(value: Number) -> object:
    return value if value is None or isinstance(value, int | float) else str(value)


def _both(left: tuple[Number, Number], right: tuple[Number, Number]) -> tuple[Number, Number]:
    found = [a if b is None else b if a is None else a + b for a, b in zip(left, right, strict=True)]  # type: ignore[operator]
    return found[0], found[1]


def difference(
    old: DataFrame, new: DataFrame, *, partition: Sequence[str], key: Sequence[str]
) -> dict[tuple[object, ...], Difference]:
    """Compare two sets of rows by partition; a column that only one side has is null on the other."""
    old, new = _aligned(old, new)
    schema = new.schema
    numbers = [
        field.name
        for field in schema.fields
        if isinstance(field.dataType, T.NumericType) and field.name not in {*partition, *key}
    ]
    sums = {place_of(row, schema, partition): row for row in _sums(old, new, partition, numbers).collect()}
    kinds = {place_of(row, schema, partition): row for row in _kinds(old, new, partition, key).collect()}
    return {place: _found(row, kinds[place], numbers) for place, row in sums.items()}


def by_partition(target: Target, found: Mapping[tuple[object, ...], Difference]) -> dict[Scope, Difference]:
    """Sum up what belongs to one partition of a target; dimensions that it leaves open are several."""
    summed: dict[Scope, Difference] = {}
    for values, each in found.items():
        value, dimensions = (values[0], values[1:]) if target.table.partition else (None, values)
        if (partition := target.partition_of(value, dimensions)) is not None:
            summed[partition] = summed[partition] + each if partition in summed else each
    return {partition: summed[partition] for partition in target.partitions if partition in summed}


@dataclass(frozen=True)
class OtherRow:
    """A row that differs: as it was, as it is, or both where a key has other content."""

    old: Mapping[str, object] | None
    new: Mapping[str, object] | None


def other_rows(
    old: DataFrame, new: DataFrame, *, partition: Sequence[str], key: Sequence[str], limit: int
) -> list[OtherRow]:
    """Return some of the rows that differ, those of the lowest partitions and keys."""
    old, new = _aligned(old, new)
    names = list(dict.fromkeys([*partition, *key]))
    hashes = row_hashes(new.schema)
    groups = [f"g{index}" for index in range(len(names))] + ([] if key else ["x0", "x1"])

    def side(rows: DataFrame, before: int) -> DataFrame:
        return rows.select(
            *(column(name).alias(f"g{index}") for index, name in enumerate(names)),
            F.lit(before).alias("o"),
            F.struct(*map(column, rows.columns)).alias("row"),
            *(value.alias(f"x{index}") for index, value in enumerate(hashes)),
        )

    asked = {"old": _first_of(1), "new": _first_of(0), "n_old": _number_of(1), "n_new": _number_of(0)}
    if key:
        asked |= {f"d{index}": F.bit_xor(F.col(f"x{index}")) for index in range(2)}
    both = side(old, 1).unionByName(side(new, 0)).groupBy(*groups)
    found = both.agg(*(value.alias(name) for name, value in asked.items()))
    other = (F.col("d0") != 0) | (F.col("d1") != 0) if key else F.lit(False)
    rows = found.where((F.col("n_old") != F.col("n_new")) | other).orderBy(*groups).limit(limit).collect()
    return [_other(row, by_key=bool(key)) for row in rows]


def _first_of(mark: int) -> Column:
    return F.first(F.when(F.col("o") == mark, F.col("row")), ignorenulls=True)


def _number_of(mark: int) -> Column:
    return F.count(F.when(F.col("o") == mark, 1))


def _other(row: Row, *, by_key: bool) -> OtherRow:
    old, new = (None if row[name] is None else row[name].asDict(recursive=True) for name in ("old", "new"))
    if not by_key and old and new:  # equal rows, more of them on one side
        return OtherRow(old, None) if row["n_old"] > row["n_new"] else OtherRow(None, new)
    return OtherRow(old, new)


def _aligned(old: DataFrame, new: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Give both sides the same columns, of the new side's types."""
    kinds = {field.name: field.dataType for field in (*old.schema.fields, *new.schema.fields)}

    def filled(rows: DataFrame) -> DataFrame:
        there = set(rows.columns)
        return rows.select(
            *((column(name) if name in there else F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items())
        )

    return filled(old), filled(new)


def _sums(old: DataFrame, new: DataFrame, partition: Sequence[str], numbers: Sequence[str]) -> DataFrame:
    places = [f"p{index}" for index in range(len(partition))]

    def side(rows: DataFrame, mark: int) -> DataFrame:
        totals = [_total(rows.schema, name).alias(f"s{index}") for index, name in enumerate(numbers)]
        each = rows.groupBy(*place_columns(rows.schema, partition)).agg(F.count(F.lit(1)).alias("n"), *totals)
        return each.withColumn("side", F.lit(mark))

    wanted = ["n", *(f"s{index}" for index in range(len(numbers)))]
    both = side(old, 0).unionByName(side(new, 1))
    return both.groupBy(*places).agg(
        *(
            F.max(F.when(F.col("side") == mark, F.col(name))).alias(f"{name}_{mark}")
            for name in wanted
            for mark in (0, 1)
        )
    )


def _total(schema: T.StructType, name: str) -> Column:
    # A sum of bigints may not fit into one.
    exact = isinstance(schema[name].dataType, T.IntegralType)
    return F.sum(column(name).cast("decimal(38,0)") if exact else column(name))


def _kinds(old: DataFrame, new: DataFrame, partition: Sequence[str], key: Sequence[str]) -> DataFrame:
    places = [f"p{index}" for index in range(len(partition))]
    hashes = row_hashes(new.schema)
    names = [f"k{index}" for index in range(len(key))] or ["x0", "x1"]

    def side(rows: DataFrame, before: int) -> DataFrame:
        return rows.select(
            *place_columns(rows.schema, partition),
            *(column(name).alias(f"k{index}") for index, name in enumerate(key)),
            F.lit(before).alias("o"),
            F.lit(1 - before).alias("n"),
            *(value.alias(f"x{index}") for index, value in enumerate(hashes)),
        )

    both = side(old, 1).unionByName(side(new, 0)).groupBy(*places, *names)
    # Equal rows cancel each other out.
    differs = [F.bit_xor(F.col(f"x{index}")).alias(f"d{index}") for index in range(2)] if key else []
    each = both.agg(F.sum("o").alias("o"), F.sum("n").alias("n"), *differs)
    other = (F.col("d0") != 0) | (F.col("d1") != 0) if key else F.lit(False)
    return each.groupBy(*places).agg(
        F.sum(F.greatest(F.col("n") - F.col("o"), F.lit(0))).alias("added"),
        F.sum(F.greatest(F.col("o") - F.col("n"), F.lit(0))).alias("removed"),
        F.count(F.when((F.col("n") > 0) & (F.col("o") > 0) & other, 1)).alias("changed"),
    )


def _found(totals: Row, kinds: Row, numbers: Sequence[str]) -> Difference:
    return Difference(
        rows=(totals["n_0"] or 0, totals["n_1"] or 0),
        added=kinds["added"],
        removed=kinds["removed"],
        changed=kinds["changed"],
        sums={name: (totals[f"s{index}_0"], totals[f"s{index}_1"]) for index, name in enumerate(numbers)},
    )
