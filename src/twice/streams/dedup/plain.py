"""Rows of events whose repeats were removed before: all of them are new, and each key must occur once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.content.changes import disputed_in_source
from twice.engine.attempt.gating import judge
from twice.engine.attempt.merging import matched_columns
from twice.engine.attempt.samples import LIMIT, rows_text
from twice.errors import KeyViolation
from twice.model.patterns import Merge
from twice.streams.dedup.rows import Counts, one_per_key
from twice.streams.dedup.write import stage_new

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.store.protocol import StagedRows


def stage_all(task: Task, stage: StagedRows, rows: DataFrame) -> Counts:
    """Stage the rows of new events."""
    table = task.step.writes
    if isinstance(table.write, Merge):
        return stage_new(task, stage, rows, None)
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
        task.store.stage_changes(task.session, stage, one.rows, insert_only=True)
        return Counts(one.copies, stage.written, 0)
    finally:
        one.release()
