"""Scopes and cuts as Spark conditions."""

from __future__ import annotations

from datetime import datetime, time, timezone
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.rows import column
from twice.errors import SchemaRefused
from twice.model.grains import local_cut

if TYPE_CHECKING:
    from collections.abc import Iterable
    from zoneinfo import ZoneInfo

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window


def instant(value: datetime) -> Column:
    """Return an instant as a literal that no session time zone can shift."""
    micros = (value.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // _MICROSECOND
    return F.timestamp_micros(F.lit(micros))


def scope_filter(target: Target) -> Column:
    """Select the rows of a target's scope."""
    terms = [column(name) == F.lit(value) for name, value in target.scope.dimensions]
    if (bounds := target.bounds()) and target.table.partition:
        place = column(target.table.partition.column)
        terms += [place >= _literal(bounds[0]), place < _literal(bounds[1])]
    return all_of(terms)


def partition_filter(target: Target, partition: Scope) -> Column:
    """Select the rows of one partition of the target."""
    terms = [column(name) == F.lit(value) for name, value in partition.dimensions]
    if (value := target.value(partition)) is not None and target.table.partition:
        terms.append(column(target.table.partition.column) == _literal(value))
    return all_of(terms)


def partitions_between(table: Table, window: Window, zone: ZoneInfo) -> Column:
    """Select whole partitions of a table by its partition column."""
    assert table.partition is not None  # noqa: S101 - only called for partitioned tables
    grain, place = table.partition.grain, column(table.partition.column)
    return (place >= _literal(grain.value(window.start, zone))) & (place < _literal(grain.value(window.end, zone)))


def happened_in(schema: T.StructType, name: str, window: Window, zone: ZoneInfo, where: str) -> Column:
    """Select rows by when they happened: the event-time column is an instant, a local time or a date."""
    if name not in schema.names:
        raise SchemaRefused(f"{where} has no column {name}, which its contract declares as event time")
    kind, when = schema[name].dataType, column(name)
    if isinstance(kind, T.TimestampType):
        return (when >= instant(window.start)) & (when < instant(window.end))
    local = [local_cut(moment, zone) for moment in (window.start, window.end)]
    if isinstance(kind, T.TimestampNTZType):
        start, end = (F.lit(moment.isoformat(sep=" ")).cast("timestamp_ntz") for moment in local)
        return (when >= start) & (when < end)
    if isinstance(kind, T.DateType):
        if any(moment.time() != time() for moment in local):
            raise SchemaRefused(
                f"{where}: event time {name} is a date, which cannot tell the parts of a day apart; "
                f"{window} needs a timestamp"
            )
        return (when >= F.lit(local[0].date())) & (when < F.lit(local[1].date()))
    raise SchemaRefused(f"{where}: event time {name} is {kind.simpleString()}; it must be a timestamp or a date")


def arrived_within(schema: T.StructType, table: Table, late: int) -> Column:
    """Select rows that arrived on the day they happened or up to some days after it, by the session's time zone."""
    assert table.partition is not None  # noqa: S101 - only called for tables that rows arrive in by day
    assert table.event_time is not None  # noqa: S101 - the same
    if table.event_time not in schema.names:
        raise SchemaRefused(f"{table.name} has no column {table.event_time}, which its contract declares as event time")
    happened, arrived = column(table.event_time).cast("date"), column(table.partition.column)
    return (arrived >= happened) & (arrived <= F.date_add(happened, late))


def valid_during(since: str, until: str, window: Window) -> Column:
    """Select row versions whose validity touches the window; no end means still valid."""
    return (column(since) < instant(window.end)) & (column(until).isNull() | (column(until) > instant(window.start)))


def all_of(terms: Iterable[Column]) -> Column:
    """Join conditions with and; none at all selects everything."""
    return reduce(lambda left, right: left & right, terms, F.lit(True))


def _literal(value: object) -> Column:
    return instant(value) if isinstance(value, datetime) else F.lit(value)


_MICROSECOND = datetime.resolution
