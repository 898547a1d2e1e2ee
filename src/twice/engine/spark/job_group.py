"""The Spark jobs of a step as one group, in a pool: they can be counted, priced and cancelled together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from twice.engine.attempt.task import Task

_POOL = "spark.scheduler.pool"
_LOCAL = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "spark.job.tags", _POOL)


@contextmanager
def grouped(task: Task) -> Iterator[None]:
    """Start the Spark jobs of this thread in the task's group and pool; afterwards the thread is as it was."""
    context = task.session.sparkContext
    before = {name: context.getLocalProperty(name) for name in _LOCAL}
    context.setJobGroup(task.group, f"{task.pipeline.name}.{task.step.name} {task.target.scope}", True)
    context.addJobTag(_tag(task.run))
    if task.chunk.pool is not None:
        context.setLocalProperty(_POOL, task.chunk.pool)
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        if not interrupted:  # else the thread's connection to Spark still owes the answer to an earlier call
            _restore(context, before)


def _restore(context: SparkContext, before: Mapping[str, str | None]) -> None:
    with contextlib.suppress(Py4JError, OSError):  # a Spark that is gone has no properties
        for name, value in before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None takes it away


def cancel_run(spark: SparkSession, run: str) -> None:
    """Cancel all Spark jobs of a run, whichever step and thread they belong to; a Spark that is gone has none."""
    with contextlib.suppress(Py4JError, OSError):
        spark.sparkContext.cancelJobsWithTag(_tag(run))


def _tag(run: str) -> str:
    return f"twice-{run}"
