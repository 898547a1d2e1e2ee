"""The names of columns that are inserted."""

from __future__ import annotations

from collections.abc import Sequence

from twice.audit.queries import Column, Query


def aligned(names: Sequence[str], values: int) -> list[str]:
    """Return a name for each value, when a name in braces may stand for any number of columns."""
    open_ended = [index for index, name in enumerate(names) if name.startswith("{")]
    if not open_ended or len(names) == values:
        return list(names)
    before, after = names[: open_ended[0]], names[open_ended[-1] + 1 :]
    between = max(0, values - len(before) - len(after))
    return [*before, *[names[open_ended[0]]] * between, *after[max(0, len(before) + len(after) - values) :]]


def name_columns(query: Query, names: tuple[str, ...]) -> None:
    """Give the columns of a query the names of the columns that they are inserted into."""
    for branch in query.branches:
        name_columns(branch, names)
    given = aligned(names, len(query.columns))
    if query.columns and not any(column.name == "*" for column in query.columns) and len(query.columns) >= len(given):
        query.columns = [
            Column(given[index] if index < len(given) else column.name, column.expr, column.place)
            for index, column in enumerate(query.columns)
        ]
