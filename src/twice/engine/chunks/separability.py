"""Whether a step of many partitions gives, in one job, what its partitions give one by one.

A step may declare it. Otherwise it is proven for the scope at hand: the step is called on inputs that are
bound but not read, and the plan that it returns is followed. In doubt the answer is no.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from twice.content.java import query_of
from twice.content.separability import Marks, Origin
from twice.engine.attempt.compute import batches
from twice.engine.attempt.inputs import arrives_apart, located
from twice.engine.attempt.outside import nothing_outside
from twice.engine.attempt.reading import bind
from twice.engine.chunks.dry_call import Stopped, watched
from twice.engine.run import task_of
from twice.engine.spark.job_group import grouped
from twice.engine.spark.metrics import started
from twice.errors import NotDeterministic, TwiceError
from twice.model.grains import Day
from twice.model.patterns import Overwrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.engine.plan import PlannedStep
    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Read

_numbers = itertools.count(1)
_MARKER = re.compile(r":window_(?:start|end)\b")


@dataclass(frozen=True)
class Separability:
    """Whether many partitions may be computed in one job, and why (not), in words."""

    ok: bool
    reason: str


def separability(runtime: Runtime, pipeline: Pipeline, planned: PlannedStep) -> Separability:
    """Decide without a Spark job: declared, or proven from the plan of this very step."""
    step = planned.step
    if reason := _never(step):
        return Separability(ok=False, reason=reason)
    if step.separable is not None:
        return Separability(step.separable, f"declared separable={step.separable}")
    if reason := _by_contract(pipeline, step):
        return Separability(ok=False, reason=reason)
    reason = _proven(replace(task_of(runtime, pipeline, planned, run="plan"), attempt_id=next(_numbers)))
    return Separability(not reason, reason or "proven from its plan")


def _proven(task: Task) -> str:
    """Return why the proof fails, if it does."""
    try:
        return _by_plan(task)
    except NotDeterministic as error:
        return f"non-deterministic: {error.message}"
    except TwiceError as error:
        return f"not known yet: {error.message}"
    except (PySparkException, Py4JError) as error:
        return f"not known: {str(error).splitlines()[0]}"
    finally:
        task.stores.release(task.session)


def _never(step: Step) -> str:
    """Return what no declaration can change."""
    if step.depends_on_past:
        return "builds on its own past"
    if not isinstance(step.writes.write, Overwrite):
        kind = type(step.writes.write).__name__
        return f"writes with {kind}(), which takes a range as one piece"
    return "fetches its window from outside" if step.kind == "extract" else ""


def _by_contract(pipeline: Pipeline, step: Step) -> str:
    """Return what the declarations alone rule out."""
    if step.nondeterministic:
        return f"non-deterministic: {step.nondeterministic}"
    if "window" in step.wants or (step.query is not None and _MARKER.search(step.query)):
        return "uses the window"
    for name, read in step.reads.items():
        if read.mode == "as_of":
            return f"reads {name} as of {read.at}"
        if read.mode == "window" and (reason := _cut_apart(pipeline, step, name, read)):
            return reason
    return ""


def _cut_apart(pipeline: Pipeline, step: Step, name: str, read: Read) -> str:
    """Return why the cut of a range is not the union of the cuts of its partitions."""
    table, mine = read.table, step.writes.partition
    assert mine is not None  # noqa: S101 - what is overwritten has partitions
    if read.lookback:
        return f"reads {name} {read.lookback} back"
    if table.partition is None:
        by_days = mine.grain == pipeline.grain == Day
        return "" if by_days else f"reads {name} by {table.event_time}, and is not cut by days"
    if table.event_time not in (None, table.partition.column):
        by_days = arrives_apart(pipeline, step, read) and mine.grain == Day
        shown = f"reads {name} by {table.partition.column} and {table.event_time}, and not all of it by days"
        return "" if by_days else shown
    if table.partition.grain != mine.grain:
        return f"reads {name} by {table.partition.grain} and writes by {mine.grain}"
    return ""


def _by_plan(task: Task) -> str:
    """Call the step on marked inputs and follow its plan."""
    marks = Marks()
    bound = {}
    for pinned in located(task):
        rows = bind(task, pinned)
        bound[pinned.name] = marks.mark(pinned.name, rows, _origin(pinned.read, rows))
    result = None
    with (
        grouped(task),
        watched(task.session) as seen,
        nothing_outside(seen),
        contextlib.suppress(Stopped),
    ):
        result = next(batches(task, bound))
    if seen or result is None:
        return seen[0]
    if started(task):
        return "starts Spark jobs while it is called"
    if not query_of(result).analyzed().deterministic():
        return "non-deterministic"
    assert task.step.writes.partition is not None  # noqa: S101 - what is overwritten has partitions
    return marks.mixes(result, task.step.writes.partition.column, task.pipeline.zone.key)


def _origin(read: Read, rows: DataFrame) -> Origin | None:
    if read.mode != "window":
        return None
    table = read.table
    if table.partition is not None and table.event_time in (None, table.partition.column):
        return Origin(column=table.partition.column)
    assert table.event_time is not None  # noqa: S101 - what is cut has one of the two
    dated = isinstance(rows.schema[table.event_time].dataType, T.DateType)
    return Origin(column=table.event_time) if dated else Origin(instant=table.event_time)
