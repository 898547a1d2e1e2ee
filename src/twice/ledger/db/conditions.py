"""Conditions that queries of several tables share."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from twice.model.windows import Window


def touching(window: Window, table: sa.Table) -> sa.ColumnElement[bool]:
    """Match rows whose window overlaps the given one."""
    return sa.and_(table.c.window_start < window.end, table.c.window_end > window.start)


def touching_or_whole(window: Window, table: sa.Table) -> sa.ColumnElement[bool]:
    """Match rows whose window overlaps the given one, and those without a window."""
    return sa.or_(table.c.window_start.is_(None), touching(window, table))


def equal(table: sa.Table, values: Mapping[str, object]) -> list[sa.ColumnElement[bool]]:
    """Match rows whose columns have these values."""
    return [table.c[name] == value for name, value in values.items()]
