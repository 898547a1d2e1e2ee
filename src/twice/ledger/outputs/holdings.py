"""What every partition of a table holds, read with few columns: for lists of a hundred thousand and more.

Windows come as texts of whole seconds in UTC, `2026-04-25T00:00:00`: they sort, and no grain is finer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from twice.ledger.db.conditions import touching_or_whole
from twice.ledger.db.encoding import second_of
from twice.ledger.db.schema import CURRENT, input_sets, outputs
from twice.model.windows import Window


class Holding(NamedTuple):
    """One partition as its last publish left it; `inputs` names a list that `input_texts` holds."""

    start: str | None
    end: str | None
    dimensions: str
    rows: int
    digest: str
    files: str
    code: str
    inputs: str
    run: str | None


def select_holdings(table: str, window: Window | None) -> sa.Select[Any]:
    """Select the columns of holdings, in their order, oldest first."""
    c = outputs.c
    query = sa.select(
        second_of(c.window_start),
        second_of(c.window_end),
        c.dimensions,
        c.row_count,
        c.digest,
        c.files,
        c.code,
        c.inputs,
        c.run,
    )
    return query.where(*current_in(table, window)).order_by(c.window_start.nulls_first())


def select_input_texts(table: str, window: Window | None) -> sa.Select[Any]:
    """Select the id and the JSON text of each list of inputs that the holdings name."""
    named = sa.select(outputs.c.inputs).where(*current_in(table, window))
    return sa.select(input_sets.c.id, input_sets.c.content).where(input_sets.c.id.in_(named))


def current_in(table: str, window: Window | None) -> list[sa.ColumnElement[bool]]:
    """Match the current outputs of a window, all of a table without one."""
    conditions: list[sa.ColumnElement[bool]] = [outputs.c.table_name == table, outputs.c.state == CURRENT]
    if window:
        conditions.append(touching_or_whole(window, outputs))
    return conditions
