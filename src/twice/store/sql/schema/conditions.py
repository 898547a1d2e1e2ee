"""Scopes and partitions as conditions of a SQL database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twice.store.sql.schema.types import Dialect

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target


def column(table: sa.Table, name: str) -> sa.Column[Any]:
    """Return a column by its name in the database."""
    for found in table.columns:
        if found.name == name:
            return found
    raise KeyError(name)


def in_scope(table: sa.Table, target: Target, dialect: Dialect) -> sa.ColumnElement[bool]:
    """Select the rows of a target's scope."""
    terms = [column(table, name) == _bound(value) for name, value in target.scope.dimensions]
    if (bounds := target.bounds()) and target.table.partition:
        place = column(table, target.table.partition.column)
        start, end = (_bound(encoded(value, dialect)) for value in bounds)
        terms += [place >= start, place < end]
    # A null in a dimension belongs to no scope, whichever scope leaves the dimension open.
    fixed = {name for name, _ in target.scope.dimensions}
    terms += [column(table, name).is_not(None) for name in target.table.dimensions if name not in fixed]
    return sa.and_(sa.true(), *terms)


def in_partitions(
    table: sa.Table, target: Target, partitions: Sequence[Scope], dialect: Dialect
) -> sa.ColumnElement[bool]:
    """Select the rows of some of the target's partitions."""
    scope = in_scope(table, target, dialect)
    if target.table.partition is None or set(partitions) == set(target.partitions):
        return scope
    place = column(table, target.table.partition.column)
    values = [_bound(encoded(target.value(partition), dialect)) for partition in partitions]
    return sa.and_(scope, place.in_(values))


def encoded(value: object, dialect: Dialect) -> object:
    """Return a partition value as the database keeps it."""
    if dialect == "postgres":
        return value
    if isinstance(value, datetime):
        return instant_text(value) if dialect == "sqlite" else value.astimezone(timezone.utc).replace(tzinfo=None)
    if dialect == "other":
        return value
    return value.isoformat() if isinstance(value, date) else value


def decoded(value: object, dialect: Dialect) -> object:
    """Read a partition value as the database gives it back."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    if dialect == "sqlite" and isinstance(value, str):
        try:
            if len(value) == len("2026-04-25"):
                return date.fromisoformat(value)
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        except ValueError:
            return value
    return value


def instant_text(value: datetime) -> str:
    """Return an instant as SQLite keeps it: a text that sorts like the time, in UTC."""
    return value.astimezone(timezone.utc).isoformat(sep=" ", timespec="microseconds")


def _bound(value: object) -> sa.BindParameter[Any]:
    # An instant must not pass through the session's time zone on its way.
    aware = isinstance(value, datetime) and value.tzinfo is not None
    return sa.literal(value, sa.DateTime(timezone=True)) if aware else sa.literal(value)
