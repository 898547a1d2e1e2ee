"""What a step would publish, computed as a run computes it: nothing is claimed, staged or recorded."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from twice.content.filters import scope_filter
from twice.engine.attempt.compute import batches
from twice.engine.attempt.failures import explained
from twice.engine.attempt.inputs import pin
from twice.engine.attempt.merging import compare_by_key, require_mergeable
from twice.engine.attempt.reading import bind
from twice.engine.attempt.unmoved import require_unmoved
from twice.engine.spark.job_group import grouped
from twice.model.patterns import InsertOnly, Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task


def preview(task: Task) -> DataFrame:
    """Return the rows that a run would publish now; of a table that is written by key, those that would change it.

    Spark holds the rows, so that showing them neither calls the step again nor reads its inputs again.
    """
    store = task.store  # a pattern that the store does not support is refused before the step is called
    try:
        with grouped(task):
            inputs = pin(task)
            bound = {pinned.name: bind(task, pinned) for pinned in inputs}
            rows = reduce(lambda one, other: one.unionByName(other), batches(task, bound)).localCheckpoint()
            if isinstance(task.step.writes.write, Merge | InsertOnly):
                require_mergeable(task, rows)
                target = rows.limit(0)
                if store.exists(task.session, task.step.writes):
                    version = store.version(task.session, task.step.writes)
                    target = store.read(task.session, task.step.writes, version).where(scope_filter(task.target))
                rows = compare_by_key(task, rows, target)[0].localCheckpoint()
            require_unmoved(task, inputs)
    except Exception as error:
        problem = explained(task, error)
        if problem is error:
            raise
        raise problem from error
    finally:
        task.stores.release(task.session)
    return rows
