"""How far Spark is with the jobs that are running now."""

from __future__ import annotations

from typing import NamedTuple

from py4j.protocol import Py4JError

from twice.engine.spark import jvm


class RunningTasks(NamedTuple):
    """The tasks of the Spark jobs that are running: how many have ended, of how many."""

    done: int
    all: int


def running_tasks() -> RunningTasks | None:
    """Count the tasks of the running jobs of this process; None without one. Any thread may ask."""
    try:
        context = jvm.running_context()
        if context is None:
            return None
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    except (Py4JError, OSError):  # Spark is being stopped
        return None
    found = [stage for stage in stages if stage is not None]
    every = sum(stage.numTasks for stage in found)
    return RunningTasks(sum(stage.numCompletedTasks for stage in found), every) if every else None
