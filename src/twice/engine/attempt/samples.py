"""Rows in error messages, with what is personal left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.errors import DefinitionError
from twice.model.framework import FRAMEWORK_COLUMNS
from twice.model.keys import key_hash

if TYPE_CHECKING:
    from twice.model.tables import Table

LIMIT = 5
_WIDE = 60


def rows_text(table: Table, rows: Sequence[Mapping[str, object]]) -> str:
    """Show rows on lines of their own; personal values are hidden, personal keys hashed."""
    return "".join(f"\n    {_row(table, row)}" for row in rows)


def _row(table: Table, row: Mapping[str, object]) -> str:
    shown = (f"{name}={_value(table, name, value)}" for name, value in row.items() if name not in FRAMEWORK_COLUMNS)
    return ", ".join(shown)


def _value(table: Table, name: str, value: object) -> str:
    if name in table.personal:
        return hashed(value) if name in table.key else "(personal)"
    text = "null" if value is None else str(value)
    return text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"


def hashed(value: object) -> str:
    """Name a personal value without showing it."""
    if value is None:
        return "null"
    try:
        return f"#{key_hash(value)[:12]}"
    except DefinitionError:
        return "(personal)"
