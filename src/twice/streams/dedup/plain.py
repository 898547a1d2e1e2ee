"""Rows of events whose repeats were removed before: all of them are new, and each key must occur once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twice.content.carrying import carried
from twice.content.changes import disputed_in_source
from twice.content.observing import counting
from twice.engine.attempt.gating import judge
from twice.engine.attempt.merging import matched_columns, refuse_null_keys
from twice.engine.attempt.samples import LIMIT, rows_text
from twice.errors import KeyViolation
from twice.model.patterns import Merge
from twice.streams.dedup.rows import Counts, any_null, one_per_key
from twice.streams.dedup.write import stage_new

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.model.tables import Table
    from twice.store.protocol import StagedRows


def is_unique(table: Table, events: DataFrame, key: Sequence[str], rows: DataFrame) -> bool:
    """Return whether each event makes one row whose key columns hold the event's key, which no other event has."""
    named = set(key)
    return named <= set(matched_columns(table)) and named <= (carried(rows, events) or frozenset())


def stage_all(task: Task, staged: StagedRows, rows: DataFrame, *, unique: bool = False) -> Counts:
    """Stage the rows of new events; `unique`: no key can occur twice among them, by how they are made."""
    table = task.step.writes
    if isinstance(table.write, Merge):
        return stage_new(task, staged, rows, None)
    if unique and not table.gates:
        return _as_they_are(task, staged, rows)
    one = one_per_key(task, rows, matched_columns(table), None)
    try:
        if one.number != one.copies:
            repeated = disputed_in_source(rows, matched_columns(table), LIMIT)
            raise KeyViolation(
                f"{table.name}: stream {task.step.name} returns several rows for one key of one batch:"
                f"{rows_text(table, repeated)}",
                unchanged="nothing was published",
                next_step="deduplicate in the function, or correct key= of the table",
            )
        if table.gates:
            judge(task, one.rows, check_keys=False)
        task.store.stage_changes(task.session, staged, one.rows, insert_only=True)
        return Counts(one.copies, staged.written, 0)
    finally:
        one.release()


def _as_they_are(task: Task, staged: StagedRows, rows: DataFrame) -> Counts:
    """Stage rows without reading them once more: null keys are counted while they are written."""
    key = matched_columns(task.step.writes)
    watched = counting(rows, any_null(key)) if task.store.abilities.counts_rows else None
    task.store.stage_changes(task.session, staged, watched.rows if watched else rows, insert_only=True)
    nulls = watched.count() if watched is not None else None
    if nulls != 0:
        refuse_null_keys(task, rows, key, seen=bool(nulls))
    return Counts(staged.written, staged.written, 0)
