"""What the levels share: one row per key of a batch, and which keys a table knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.filters import instant
from twice.content.rows import column, row_hashes
from twice.engine.attempt.merging import refuse_null_keys
from twice.model.framework import FRAMEWORK_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from twice.engine.attempt.task import Task

_RANK = "_twice_rank"
_COPIES = "_twice_copies"
# Up to this many distinct partition values of a batch are passed to the table's reader; with more it reads all.
_NAMED = 200
# Types that Spark and every store order alike. They order texts differently: by collation, as a uuid, if not UTF-8.
_NUMBERS = (T.IntegerType(), T.LongType())
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Counts:
    """The counts of a batch's rows."""

    rows_in: int
    rows_out: int
    duplicates: int
    # Whether the table changes although no row is added: a replayed batch may only remove some.
    changed: bool = False

    def to_json(self) -> dict[str, int]:
        """Return the counts as the ledger keeps them."""
        return {"rows_in": self.rows_in, "rows_out": self.rows_out, "duplicates": self.duplicates}


@dataclass(frozen=True)
class OnePerKey:
    """A batch's rows, one per key, held by Spark; `copies` is how many there were with all repeats."""

    rows: DataFrame
    held: DataFrame
    number: int
    copies: int
    partitions: Sequence[object] | None
    # The lowest and the highest value of key columns that are whole numbers.
    bounds: Mapping[str, tuple[object, object]]

    def release(self) -> None:
        """Let Spark forget the rows."""
        self.held.unpersist()


def any_null(names: Sequence[str]) -> Column:
    """Return whether a row has a null in one of these columns."""
    return reduce(lambda left, right: left | right, (column(name).isNull() for name in names))


def one_per_key(task: Task, rows: DataFrame, key: Sequence[str], order: str | None) -> OnePerKey:
    """Keep of each key the row with the lowest `order`, then with the lowest hash of its content; no key is null."""
    content = [name for name in rows.columns if name not in FRAMEWORK_COLUMNS]
    by = [*([column(order)] if order else []), *row_hashes(rows.schema, content)]
    ranking = Window.partitionBy(*map(column, key)).orderBy(*by)
    # In the same order, though a count needs none: another one would be another sort.
    copies = F.count("*").over(ranking.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    ranked = rows.select("*", F.row_number().over(ranking).alias(_RANK), copies.alias(_COPIES))
    held = ranked.where(F.col(_RANK) == 1).drop(_RANK).persist()
    place = task.target.table.partition
    asked = [F.count("*"), F.sum(_COPIES), F.count_if(any_null(key))]
    if place is not None and place.column in rows.columns:
        value = column(place.column)
        # As microseconds: an instant that Python reads in local time may come back as another one.
        asked += [F.collect_set(F.unix_micros(value) if place.grain.sub_day else value)]
    ordered = [name for name, kind in _kinds(rows).items() if name in key and kind in _NUMBERS]
    found = held.agg(*asked, *(each(column(name)) for name in ordered for each in (F.min, F.max))).collect()[0]
    if found[2]:
        refuse_null_keys(task, rows, key, seen=True)
    values = list(found[3]) if len(asked) > 3 and len(found[3]) <= _NAMED else None
    ends = list(found)[len(asked) :]
    bounds = {name: (low, high) for name, low, high in zip(ordered, ends[::2], ends[1::2], strict=True)}
    bounds = {name: ends for name, ends in bounds.items() if None not in ends}
    return OnePerKey(held.drop(_COPIES), held, int(found[0]), int(found[1] or 0), values, bounds)


def _kinds(rows: DataFrame) -> dict[str, T.DataType]:
    return {field.name: field.dataType for field in rows.schema.fields}


def near(task: Task, rows: DataFrame, one: OnePerKey) -> DataFrame:
    """Cut a table to where the keys of a batch can be: files that hold only lower or higher ones are not read."""
    found, kinds = in_partitions(task, rows, one.partitions), _kinds(rows)
    for name, (low, high) in one.bounds.items():
        # A column of another type, such as a text of digits, has another order.
        if kinds.get(name) in _NUMBERS:
            found = found.where(column(name).between(F.lit(low), F.lit(high)))
    return found


def in_partitions(task: Task, rows: DataFrame, values: Sequence[object] | None) -> DataFrame:
    """Cut a table to the partitions that a batch has rows in, where they are few enough to be named."""
    place = task.target.table.partition
    if values is None or place is None:
        return rows
    named: list[object] = [value for value in values if value is not None]
    if place.grain.sub_day:
        named = [instant(_EPOCH + timedelta(microseconds=int(str(value)))) for value in named]
    return rows.where(column(place.column).isin(named))


def known_keys(table: DataFrame, rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the keys of some rows that a table holds: the few rows are sent to the many."""
    keys = [column(name) for name in key]
    return table.select(*keys).join(F.broadcast(rows.select(*keys)), list(key), "left_semi")


def without(rows: DataFrame, known: DataFrame, key: Sequence[str]) -> DataFrame:
    """Leave out rows whose key is known."""
    return rows.join(F.broadcast(known), list(key), "left_anti")
