"""What is recorded about a step of a backfill: how it was cut into chunks, and what has been learnt about it since.

`compared`: a partition with rows was computed alone and is the same. `one_by_one`: one differed, so each has a job
of its own. `split`: windows in which something was wrong, whose parts stay as small as they are. `after`: chunks up to
this number were made by other code.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from twice.ledger.db.encoding import to_text
from twice.ledger.db.schema import backfills
from twice.model.windows import Window


def note_of(row: Any, step_index: int) -> dict[str, Any]:
    """Read what a backfill's row records about one of its steps."""
    plan = json.loads(row.plan)
    return dict(plan[step_index - 1]) if 0 < step_index <= len(plan) else {}


def add_to_note(connection: sa.Connection, row: Any, step_index: int, **facts: object) -> None:
    """Add to what is recorded about a step; the backfill's row is locked."""
    plan = json.loads(row.plan)
    if 0 < step_index <= len(plan):
        plan[step_index - 1] |= facts
        connection.execute(sa.update(backfills).where(backfills.c.id == row.id).values(plan=to_text(plan)))


def was_split(note: dict[str, Any], window: Window | None) -> bool:
    """Return whether a window came from a chunk in which something was wrong."""
    return window is not None and any(Window.from_json(each).covers(window) for each in note.get("split", ()))


def note_split(connection: sa.Connection, row: Any, step_index: int, window: Window | None) -> None:
    """Record that something is wrong in a window, unless it is part of a recorded one."""
    note = note_of(row, step_index)
    if window is not None and not was_split(note, window):
        add_to_note(connection, row, step_index, split=[*note.get("split", ()), window.to_json()])
