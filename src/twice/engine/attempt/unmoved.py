"""Whether inputs are still what was read of them, in a store that cannot hold a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twice.engine.attempt.inputs import Pinned, fingerprints
from twice.errors import Conflict
from twice.model.content import Content

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task


def require_unmoved(task: Task, inputs: Sequence[Pinned]) -> None:
    """Refuse to publish what was read from an input that changed meanwhile, in a store that cannot hold a version."""
    for pinned in inputs:
        table = pinned.read.table
        source = task.stores.source(table)
        if not source.abilities.pins and _moved(task, pinned, source.version(task.session, table)):
            raise Conflict(
                f"step {task.step.name}: its input {pinned.name} ({table.name}) changed while it was read",
                unchanged="nothing was published",
                next_step="run it again: the new attempt reads what is there now",
            )


def _moved(task: Task, pinned: Pinned, version: str | None) -> bool:
    """Return whether what was read has changed; tomorrow's rows that arrive meanwhile are not part of the window."""
    before = dict(pinned.record.partitions)
    if not before:
        return version != pinned.version
    # The version counts publishes; an edit by hand shows only in what the partitions hold.
    after = fingerprints(task, pinned.read, pinned.cut, version)
    return before.keys() != after.keys() or any(
        not Content.read(text).may_be(Content.read(after[at])) for at, text in before.items()
    )
