"""Rows that were staged outside the scope, as an error names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from twice.store.protocol import Stray

if TYPE_CHECKING:
    from twice.model.tables import Table


def outside(
    table: Table, partitions: Iterable[Mapping[str, object]], rows: int, files: Iterable[str], *, kind: str
) -> Stray:
    """Describe staged rows by their partitions, for a store that keeps an empty text there as null."""
    found = list(partitions)
    blank = [name for name in table.dimensions if any(values.get(name) is None for values in found)]
    hint = (
        f"a {kind} store cannot tell an empty text in {', '.join(blank)} from null, and null belongs to no partition: "
        "give these rows a value, or keep the table in an Iceberg store"
        if blank
        else ""
    )
    return Stray(rows, tuple(sorted({_named(table, values) for values in found})), tuple(files), hint)


def _named(table: Table, values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_text(table, name, values.get(name))}" for name in table.partition_columns)


def _text(table: Table, name: str, value: object) -> str:
    if value is not None:
        return str(value)
    return "null or an empty text" if name in table.dimensions else "null"
