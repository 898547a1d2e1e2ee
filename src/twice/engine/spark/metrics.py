"""What an attempt cost, from Spark's own metrics: the jobs of its group and no others."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from twice.content.java import items_of
from twice.engine.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.attempt.outputs import Finding
    from twice.engine.attempt.task import Task

# Spark updates its metrics a moment after a job has ended.
_PATIENCE = 500


def priced(task: Task, finding: Finding) -> Finding:
    """Add to a finding what it cost."""
    cost = measured(task)
    return replace(finding, details={**finding.details, "cost": cost}) if cost else finding


def measured(task: Task) -> dict[str, float]:
    """Sum what the attempt's Spark jobs used so far; empty, if it started none or Spark cannot say."""
    if jvm.is_stopped(task.session):
        return {}
    with contextlib.suppress(Py4JError, OSError):
        return sum_metrics(task.session, task.group)
    return {}


def started(task: Task) -> int:
    """Count the Spark jobs that were started in the task's group."""
    with contextlib.suppress(Py4JError):
        jvm.context(task.session).listenerBus().waitUntilEmpty(_PATIENCE)
    return len(task.session.sparkContext.statusTracker().getJobIdsForGroup(task.group))


def sum_metrics(session: SparkSession, group: str) -> dict[str, float]:
    """Add up what Spark measured for the stages of a job group."""
    spark = jvm.context(session)
    with contextlib.suppress(Py4JError):
        spark.listenerBus().waitUntilEmpty(_PATIENCE)
    store = spark.statusStore()
    stages: dict[int, Any] = {}
    for number in session.sparkContext.statusTracker().getJobIdsForGroup(group):
        with contextlib.suppress(Py4JError):  # too old: Spark has dropped it
            for stage in items_of(store.job(number).stageIds()):
                stages.setdefault(stage, None)
    if not stages:
        return {}
    total = dict.fromkeys(("executor_seconds", "cpu_seconds", "bytes_read", "bytes_written", "bytes_shuffled"), 0.0)
    every, none = jvm.no_statuses(session), jvm.no_quantiles(session)
    for stage in stages:
        for used in _attempts(store, stage, every, none):
            total["executor_seconds"] += used.executorRunTime() / 1e3
            total["cpu_seconds"] += used.executorCpuTime() / 1e9
            total["bytes_read"] += used.inputBytes()
            total["bytes_written"] += used.outputBytes()
            total["bytes_shuffled"] += used.shuffleWriteBytes()
    return {name: round(value, 3) for name, value in total.items()}


def _attempts(store: Any, stage: int, every: Any, none: Any) -> list[Any]:
    """Return every attempt of a stage; what a lost executor computed was paid for, too."""
    with contextlib.suppress(Py4JError):  # skipped: its rows were there already
        return list(items_of(store.stageData(stage, False, every, False, none)))
    return []
