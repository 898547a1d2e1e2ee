"""Overwrite and Whole: the scope becomes what the step returned, its rows as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twice.content.observing import observed
from twice.content.uniqueness import proves_unique
from twice.engine.attempt import gating
from twice.engine.attempt.stage_result import StageResult
from twice.engine.chunks.task_per_partition import staged_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.task import Task
    from twice.store.protocol import StagedRows


def stage(task: Task, staged: StagedRows, results: Iterator[DataFrame]) -> StageResult:
    """Write the rows as they are; those of one partition are profiled on their way, where that can be done."""
    table, first = task.step.writes, next(results)
    unique = proves_unique(first, [*table.key, *table.partition_columns])
    watched = None
    if task.store.abilities.counts_rows and len(task.target.partitions) == 1:
        violations = gating.violations(task, first)
        watched = observed(first, key=table.key, dimensions=table.dimensions, violations=violations, unique=unique)
    task.store.stage(task.session, staged, watched.rows if watched else first)
    seen = watched.profile(staged.counted) if watched and staged.counted is not None else None
    for rows in results:
        task.store.stage_more(task.session, staged, rows)
        unique, seen = False, None  # a key may occur once in each batch, and several times in their union
    return StageResult(staged, unique=unique, seen=seen)


def gate(task: Task, result: StageResult) -> Verdict:
    """Judge the staged rows, partition by partition."""
    with staged_rows(task, result.staged, unique=result.unique) as rows:
        return gating.judge(task, rows, unique=result.unique, seen=result.seen)
