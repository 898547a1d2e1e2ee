"""One step with the framework around it, on DataFrames of the test's own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from twice import config as configuration
from twice.content.filters import scope_filter
from twice.engine.attempt.compute import batches
from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.attempt.gating import judge
from twice.engine.attempt.reading import cut_rows
from twice.engine.attempt.samples import LIMIT, rows_text
from twice.engine.attempt.task import Task
from twice.engine.stores import Stores
from twice.errors import OutOfScope, UsageError
from twice.ledger import open_ledger
from twice.model.patterns import InsertOnly, Merge
from twice.model.pipelines import Pipeline, step_of
from twice.model.scopes import Scope
from twice.model.steps import Step
from twice.model.targets import Target

if TYPE_CHECKING:
    from twice.model.grains import Grain


def run(
    step: Callable[..., Any] | Step,
    unit: str,
    /,
    *,
    grain: Grain | None = None,
    time_zone: str = "UTC",
    spark: SparkSession | None = None,
    **inputs: DataFrame,
) -> DataFrame:
    """Run one step for a partition: inputs are cut to the window, the result is judged as in a real run.

    Nothing is written. What a run would refuse is raised here too: rows outside the scope, bad
    keys, failed gates, a plan that reads the clock.
    """
    found = step_of(step)
    unknown, missing = sorted(set(inputs) - set(found.reads)), sorted(set(found.reads) - set(inputs))
    if unknown or missing:
        raise UsageError(
            f"step {found.name} reads {', '.join(found.reads) or 'nothing'}; got {', '.join(inputs) or 'nothing'}"
        )
    session = spark or next((df.sparkSession for df in inputs.values()), None) or SparkSession.getActiveSession()
    if session is None:
        raise UsageError("there is no Spark session: pass spark=…")
    with tempfile.TemporaryDirectory() as folder:
        task = _task(found, unit, grain, time_zone, session, Path(folder))
        return _judged(task, inputs)


def _task(step: Step, unit: str, grain: Grain | None, zone: str, session: SparkSession, folder: Path) -> Task:
    cut = grain or (step.writes.partition.grain if step.writes.partition else None)
    if cut is None:
        raise UsageError(f"{step.writes.name} has no partition: give its grain: grain=Day")
    pipeline = Pipeline(step.pipeline, grain=cut, time_zone=zone)
    scope = Scope.of(cut.unit(unit, pipeline.zone))
    return Task(
        pipeline=pipeline,
        step=step,
        scope=scope,
        target=Target.of(step.writes, scope, pipeline.zone),
        run="test",
        code=fingerprint(step),
        session=session,
        stores=Stores(configuration.load(start=folder)),
        ledger=open_ledger(f"sqlite:///{folder}/ledger.db"),
        lease=timedelta(seconds=60),
    )


def _judged(task: Task, inputs: dict[str, DataFrame]) -> DataFrame:
    window, zone = task.scope.window, task.pipeline.zone
    assert window is not None  # noqa: S101 - built from a partition
    bound = {
        name: cut_rows(task, read, read.cut(window, task.step.writes.lateness, zone), inputs[name])
        for name, read in task.step.reads.items()
    }
    result = reduce(lambda one, other: one.unionByName(other), batches(task, bound)).localCheckpoint()
    inside = scope_filter(task.target)
    strays = result.where(~inside | inside.isNull()).limit(LIMIT).collect()
    if strays:
        rows = [row.asDict(recursive=True) for row in strays]
        raise OutOfScope(
            f"step {task.step.name} returned rows outside {task.target.scope}:{rows_text(task.step.writes, rows)}"
        )
    judge(task, result, check_keys=not isinstance(task.step.writes.write, Merge | InsertOnly))
    return result
