"""What a step would publish, computed as a run computes it: nothing is claimed, staged or recorded."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from twice.content.filters import scope_filter
from twice.engine.attempt.compute import batches
from twice.engine.attempt.failures import explained
from twice.engine.attempt.inputs import bind, pin, require_unmoved
from twice.engine.attempt.staging import compare_by_key, require_mergeable
from twice.engine.spark.job_group import grouped
from twice.model.patterns import InsertOnly, Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.job import Job


def preview(job: Job) -> DataFrame:
    """Return the rows that a run would publish now; of a table that is written by key, those that would change it.

    Spark holds the rows, so that looking at them neither calls the step again nor reads its inputs again.
    """
    store = job.store  # a pattern that the store cannot do is refused before the step is called
    try:
        with grouped(job):
            inputs = pin(job)
            bound = {pinned.name: bind(job, pinned) for pinned in inputs}
            rows = reduce(lambda one, other: one.unionByName(other), batches(job, bound)).localCheckpoint()
            if isinstance(job.step.writes.write, Merge | InsertOnly):
                require_mergeable(job, rows)
                target = rows.limit(0)
                if store.exists(job.session, job.step.writes):
                    version = store.version(job.session, job.step.writes)
                    target = store.read(job.session, job.step.writes, version).where(scope_filter(job.target))
                rows = compare_by_key(job, rows, target)[0].localCheckpoint()
            require_unmoved(job, inputs)
    except Exception as error:
        problem = explained(job, error)
        if problem is error:
            raise
        raise problem from error
    finally:
        job.stores.release(job.session)
    return rows
