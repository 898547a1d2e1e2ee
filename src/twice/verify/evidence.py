"""How two tables that should be equal differ: counts, match rate by column, then only the changed cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.changes import row_hashes_of
from twice.content.rows import column
from twice.engine.attempt.samples import hashed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Cells that lines show, and cells that are kept for a file.
_CELLS = 20
_KEPT = 2_000
_ROWS = 5
# This many differing rows are read to classify the differences.
_LOOKED_AT = 200
_COPY = "_twice_copy"
_NOISE = 1e-9
_QUARTER = timedelta(minutes=15)


@dataclass(frozen=True)
class Cell:
    """One value that differs."""

    row: str
    column: str
    left: str
    right: str
    kind: str


@dataclass(frozen=True)
class Evidence:
    """What differs between two tables; `left` and `right` name them."""

    left: str
    right: str
    rows: tuple[int, int]
    only_left: int
    only_right: int
    changed: int
    # Of the rows that both have: the share with the same value, by column; columns that agree are left out.
    matches: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    samples: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    # Both types of the columns that have another one on each side.
    types: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Of the changed rows, those that were read for kinds and cells.
    looked_at: int = 0

    @property
    def text(self) -> str:
        """The counts in one line."""
        parts = [f"{self.rows[0]:,} rows {self.left}, {self.rows[1]:,} {self.right}"]
        if self.columns:
            parts.append(f"columns on one side only: {', '.join(self.columns)}")
        parts += [f"{name}: {left} {self.left}, {right} {self.right}" for name, (left, right) in self.types.items()]
        for count, what in (
            (self.only_left, f"only {self.left}"),
            (self.only_right, f"only {self.right}"),
            (self.changed, "changed"),
        ):
            if count:
                parts.append(f"{count:,} {what}")
        return "; ".join(parts)

    def lines(self) -> Iterator[str]:
        """Yield the evidence, from the whole to the single cell."""
        yield self.text
        yield from self.shares()
        for cell in self.cells[:_CELLS]:
            yield f"{cell.row}: {cell.column} {cell.left} | {cell.right}"
        if len(self.cells) > _CELLS:
            yield f"… and {len(self.cells) - _CELLS:,} more cells"
        yield from self.samples

    def shares(self) -> Iterator[str]:
        """Yield by column how many rows agree, and how the others differ."""
        some = f" in {self.looked_at:,} of {self.changed:,} rows" if self.looked_at < self.changed else ""
        for name, share in self.matches.items():
            kinds = ", ".join(f"{kind} ({count:,})" for kind, count in self.kinds.get(name, {}).items())
            yield f"{name}: {share:.1%} agree" + (f"; {kinds}{some}" if kinds else "")

    def to_json(self) -> dict[str, object]:
        """Return the evidence as JSON scalars."""
        return {
            "left": self.left,
            "right": self.right,
            "rows": list(self.rows),
            "only_left": self.only_left,
            "only_right": self.only_right,
            "changed": self.changed,
            "columns": list(self.columns),
            "types": {name: list(kinds) for name, kinds in self.types.items()},
            "looked_at": self.looked_at,
            "matches": dict(self.matches),
            "kinds": {name: dict(kinds) for name, kinds in self.kinds.items()},
            "cells": [cell.__dict__ for cell in self.cells],
            "samples": list(self.samples),
        }


def compare(
    left: DataFrame,
    right: DataFrame,
    *,
    key: Sequence[str],
    personal: Sequence[str] = (),
    names: tuple[str, str] = ("before", "after"),
) -> Evidence:
    """Compare two tables by key; without one, rows count as the same only if all of their values are."""
    both = [name for name in left.columns if name in right.columns]
    odd = sorted(set(left.columns) ^ set(right.columns))
    key = [name for name in key if name in both] or both
    values = [name for name in both if name not in key]
    there = {side: F.col(f"{side}.{_COPY}").isNotNull() for side in "lr"}
    pairs = there["l"] & there["r"]
    equal = {name: _same(name) for name in values}
    differs = pairs & ~reduce(lambda one, other: one & other, equal.values(), F.lit(True))
    held = _paired(left, right, both, key).persist()
    try:
        counts = held.agg(
            F.count(F.when(there["l"], 1)),
            F.count(F.when(there["r"], 1)),
            F.count(F.when(~there["r"], 1)),
            F.count(F.when(~there["l"], 1)),
            F.count(F.when(differs, 1)),
            F.count(F.when(pairs, 1)),
            *(F.count(F.when(pairs & same, 1)) for same in equal.values()),
        ).collect()[0]
        found = _looked_at(held.where(differs), [*key, *values])
        alone = [
            (name, _side(held.where(~there[other]), side, both))
            for name, side, other in ((names[0], "l", "r"), (names[1], "r", "l"))
        ]
    finally:
        held.unpersist()
    kinds, cells = _cells(found, key, values, personal)
    total = counts[5] or 1
    shares = {name: counts[6 + index] / total for index, name in enumerate(values)}
    samples = [f"only {name}: {_row(row, both, personal)}" for name, rows in alone for row in rows]
    return Evidence(
        names[0],
        names[1],
        (counts[0], counts[1]),
        counts[2],
        counts[3],
        counts[4],
        {name: share for name, share in shares.items() if share < 1},
        kinds,
        tuple(cells[:_KEPT]),
        tuple(samples),
        tuple(odd),
        {name: pair for name in both if (pair := _types(left, right, name))[0] != pair[1]},
        len(found),
    )


def _types(left: DataFrame, right: DataFrame, name: str) -> tuple[str, str]:
    return left.schema[name].dataType.simpleString(), right.schema[name].dataType.simpleString()


def _paired(left: DataFrame, right: DataFrame, names: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Put the rows of both tables side by side, by key."""
    same = reduce(lambda one, other: one & other, (_same(name) for name in [*key, _COPY]))
    return _numbered(left, names, key).alias("l").join(_numbered(right, names, key).alias("r"), same, "full_outer")


def _numbered(rows: DataFrame, names: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Number the rows of a key, so that repeats pair up."""
    chosen = rows.select(*(_comparable(rows.schema, name).alias(name) for name in names))
    order = Window.partitionBy(*map(column, key)).orderBy(*row_hashes_of(chosen, list(names)))
    return chosen.withColumn(_COPY, F.row_number().over(order))


def _comparable(schema: T.StructType, name: str) -> Column:
    """Return a column as Spark can compare it: maps and variants cannot be."""
    kind = schema[name].dataType.simpleString()
    return F.to_json(column(name)) if "map<" in kind or "variant" in kind else column(name)


def _same(name: str) -> Column:
    quoted = name.replace("`", "``")
    return F.col(f"l.`{quoted}`").eqNullSafe(F.col(f"r.`{quoted}`"))


def _side(rows: DataFrame, side: str, names: Sequence[str]) -> list[dict[str, Any]]:
    chosen = (F.col(f"{side}.`{name.replace('`', '``')}`").alias(name) for name in names)
    return [row.asDict() for row in rows.select(*chosen).limit(_ROWS).collect()]


def _looked_at(rows: DataFrame, names: Sequence[str]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    if not names:
        return []
    sides = [
        F.struct(*(F.col(f"{side}.`{name.replace('`', '``')}`").alias(name) for name in names)).alias(side)
        for side in "lr"
    ]
    return [(row["l"].asDict(), row["r"].asDict()) for row in rows.select(*sides).limit(_LOOKED_AT).collect()]


def _cells(
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]],
    key: Sequence[str],
    values: Sequence[str],
    personal: Sequence[str],
) -> tuple[dict[str, dict[str, int]], list[Cell]]:
    kinds: dict[str, Counter[str]] = {}
    cells = []
    for one, other in pairs:
        for name in values:
            if (one[name] == other[name] and type(one[name]) is type(other[name])) or _both_nan(one[name], other[name]):
                continue
            kind = kind_of(one[name], other[name])
            kinds.setdefault(name, Counter())[kind] += 1
            shown = [_shown(name, row[name], personal) for row in (one, other)]
            cells.append(Cell(_row(one, key, personal), name, shown[0], shown[1], kind))
    return {name: dict(found.most_common()) for name, found in kinds.items()}, cells


def _both_nan(left: object, right: object) -> bool:
    return isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right)


def kind_of(left: object, right: object) -> str:
    """Name the kind of difference between two values.

    >>> kind_of(None, 3), kind_of(0.1 + 0.2, 0.3), kind_of([1, 2], [2, 1])
    ('null', 'float noise', 'order')
    """
    if left is None or right is None:
        return "null"
    if isinstance(left, datetime) and isinstance(right, datetime):
        apart = abs(left - right)
        shifted = apart and apart % _QUARTER == timedelta() and apart <= timedelta(hours=14)
        return "time-zone shift" if shifted else "value"
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return "order" if sorted(map(repr, left)) == sorted(map(repr, right)) else "value"
    if isinstance(left, float) and isinstance(right, float):
        return "float noise" if math.isclose(left, right, rel_tol=_NOISE, abs_tol=1e-12) else "value"
    if isinstance(left, int | float | Decimal) and isinstance(right, int | float | Decimal):
        return "scale" if left == right else "value"
    return "value"


def _row(row: Mapping[str, Any], names: Sequence[str], personal: Sequence[str]) -> str:
    return ", ".join(f"{name}={_shown(name, row[name], personal)}" for name in names)


def _shown(name: str, value: object, personal: Sequence[str]) -> str:
    if name in personal:
        return hashed(value)
    text = "null" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
