"""What an attempt cost, from Spark's own metrics: the jobs of its group and no others."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from twice.content.java import compiled
from twice.engine.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.attempt.outputs import Finding
    from twice.engine.attempt.task import Task

# Spark updates its metrics a moment after a job has ended.
_PATIENCE = 500
# A run asks after each step: in Python that would be a hundred round trips to Java.
_SOURCE = """
package twice;

public class Metrics {
    /** Adds up the stages of a group's jobs, every attempt of them: what a lost executor did was paid for, too. */
    public String used(org.apache.spark.SparkContext context, String group, long patience) {
        try {
            context.listenerBus().waitUntilEmpty(patience);
        } catch (Exception late) {
            // What Spark has counted by now is all there is.
        }
        java.util.Set stages = new java.util.TreeSet();
        int[] jobs = context.statusTracker().getJobIdsForGroup(group);
        for (int i = 0; i < jobs.length; i++) {
            try {
                scala.collection.Iterator each = context.statusStore().job(jobs[i]).stageIds().iterator();
                while (each.hasNext()) {
                    stages.add(each.next());
                }
            } catch (Exception forgotten) {
                // Spark keeps the last thousand jobs.
            }
        }
        long[] sums = new long[5];
        for (java.util.Iterator stage = stages.iterator(); stage.hasNext();) {
            try {
                add(context, ((Integer) stage.next()).intValue(), sums);
            } catch (Exception skipped) {
                // A stage whose rows were there already has no metrics.
            }
        }
        if (stages.isEmpty()) {
            return "";
        }
        return sums[0] + "," + sums[1] + "," + sums[2] + "," + sums[3] + "," + sums[4];
    }

    private static void add(org.apache.spark.SparkContext context, int stage, long[] sums) {
        java.util.List any = new java.util.ArrayList();
        scala.collection.Iterator attempts =
            context.statusStore().stageData(stage, false, any, false, new double[0]).iterator();
        while (attempts.hasNext()) {
            org.apache.spark.status.api.v1.StageData used = (org.apache.spark.status.api.v1.StageData) attempts.next();
            sums[0] += used.executorRunTime();
            sums[1] += used.executorCpuTime();
            sums[2] += used.inputBytes();
            sums[3] += used.outputBytes();
            sums[4] += used.shuffleWriteBytes();
        }
    }
}
"""


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
    """Add up what Spark measured for the jobs of a group; empty without a job that Spark remembers."""
    context = jvm.context(session)
    used = str(compiled(session, lambda: context, "twice.Metrics", _SOURCE).used(context, group, _PATIENCE))
    if not used:
        return {}
    milliseconds, nanoseconds, *sizes = map(int, used.split(","))
    names = ("executor_seconds", "cpu_seconds", "bytes_read", "bytes_written", "bytes_shuffled")
    values = (milliseconds / 1e3, nanoseconds / 1e9, *map(float, sizes))
    return {name: round(value, 3) for name, value in zip(names, values, strict=True)}
