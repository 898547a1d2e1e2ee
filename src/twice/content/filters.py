"""Scopes and cuts as Spark conditions.

Conditions on names and instants alone are built as one text: building one by calls costs a dozen trips to the JVM.
"""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.rows import column
from twice.errors import SchemaRefused
from twice.model.grains import local_cut
from twice.model.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window


def instant(value: datetime) -> Column:
    """Return an instant as a literal that no session time zone can shift."""
    return F.expr(_literal(value))


def scope_filter(target: Target) -> Column:
    """Select the rows of a target's scope."""
    terms = _dimensions(target.scope)
    if (bounds := target.bounds()) and target.table.partition:
        terms.append(_between(target.table.partition.column, *bounds))
    return all_of(terms)


def partition_filter(target: Target, partition: Scope) -> Column:
    """Select the rows of one partition of the target."""
    terms = _dimensions(partition)
    if (value := target.value(partition)) is not None and target.table.partition:
        terms.append(F.expr(f"{quote(target.table.partition.column)} = {_literal(value)}"))
    return all_of(terms)


def partitions_between(table: Table, window: Window, zone: ZoneInfo) -> Column:
    """Select whole partitions of a table by its partition column."""
    assert table.partition is not None  # noqa: S101 - only called for partitioned tables
    grain = table.partition.grain
    return _between(table.partition.column, grain.value(window.start, zone), grain.value(window.end, zone))


def happened_in(schema: T.StructType, name: str, window: Window, zone: ZoneInfo, where: str) -> Column:
    """Select rows by when they happened: the event-time column is an instant, a local time or a date."""
    if name not in schema.names:
        raise SchemaRefused(f"{where} has no column {name}, which its contract declares as event time")
    kind = schema[name].dataType
    if isinstance(kind, T.TimestampType):
        return _between(name, window.start, window.end)
    local = [local_cut(moment, zone) for moment in (window.start, window.end)]
    if isinstance(kind, T.TimestampNTZType):
        start, end = (f"CAST('{moment.isoformat(sep=' ')}' AS TIMESTAMP_NTZ)" for moment in local)
        return F.expr(f"{quote(name)} >= {start} AND {quote(name)} < {end}")
    if isinstance(kind, T.DateType):
        if any(moment.time() != time() for moment in local):
            raise SchemaRefused(
                f"{where}: event time {name} is a date, which cannot tell the parts of a day apart; "
                f"{window} needs a timestamp"
            )
        return _between(name, local[0].date(), local[1].date())
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
    start, end = _literal(window.start), _literal(window.end)
    return F.expr(f"{quote(since)} < {end} AND ({quote(until)} IS NULL OR {quote(until)} > {start})")


def all_of(terms: Sequence[Column]) -> Column:
    """Join conditions with and; none at all selects everything."""
    return reduce(lambda left, right: left & right, terms) if terms else F.lit(True)


def _dimensions(scope: Scope) -> list[Column]:
    # Values never enter a text: sessions differ in how they read those.
    return [column(name) == F.lit(value) for name, value in scope.dimensions]


def _between(name: str, start: object, end: object) -> Column:
    return F.expr(f"{quote(name)} >= {_literal(start)} AND {quote(name)} < {_literal(end)}")


def _literal(value: object) -> str:
    if isinstance(value, datetime):
        micros = (value.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // datetime.resolution
        return f"timestamp_micros({micros}L)"
    assert isinstance(value, date)  # noqa: S101 - partition values are dates or instants
    return f"DATE '{value.isoformat()}'"
