"""A replay from its plan to its report."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.engine.attempt.failures import explained
from twice.engine.attempt.samples import LIMIT
from twice.engine.events import Event
from twice.engine.spark.environment import changed_software, environment
from twice.engine.spark.job_group import grouped
from twice.errors import StoreRefused, TransientError, TwiceError
from twice.replay.comparing import compare
from twice.replay.rebuilding import rebuild, task_of
from twice.replay.recorded import Recorded
from twice.replay.report import Report, StepReplay, cannot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twice.engine.attempt.task import Task
    from twice.engine.events import State
    from twice.engine.run import Runtime
    from twice.replay.recorded import Plan

_UNRECORDED = "the run did not record its versions and settings: the current ones were used"


def replay(runtime: Runtime, plan: Plan, *, rows: int = LIMIT) -> Report:
    """Rebuild the steps of a plan one after the other and compare them; nothing is published or recorded.

    `rows` is how many of the rows that differ are shown for each step.
    """
    steps = [_tried(runtime, step, rows) if isinstance(step, Recorded) else step for step in plan.steps]
    tried = next((step for step in plan.steps if isinstance(step, Recorded)), None)
    if tried is None:
        return Report(plan.run, steps)
    made_with = plan.run.environment
    remarks = changed_software(made_with, environment(runtime, tried.pipeline)) if made_with else [_UNRECORDED]
    return Report(plan.run, steps, remarks)


def _tried(runtime: Runtime, recorded: Recorded, rows: int) -> StepReplay:
    started = time.monotonic()
    _report(runtime, recorded, "computing")
    try:
        found = _rebuilt(runtime, recorded, rows)
    except TransientError:
        raise  # transient: the same command may succeed later
    except TwiceError as error:
        why = error.message if isinstance(error, StoreRefused) else f"it could not be computed: {error.message}"
        found = cannot(recorded.attempt, why, error.next_step if isinstance(error, StoreRefused) else "")
    took = {"seconds": time.monotonic() - started}
    counted = {"rows": found.rebuilt_rows} if found.rebuilt_rows is not None else {}
    _report(runtime, recorded, found.status, found.why if found.status != "same" else "", {**counted, **took})
    return found


def _rebuilt(runtime: Runtime, recorded: Recorded, rows: int) -> StepReplay:
    task, refused = task_of(runtime, recorded)
    try:
        with grouped(task):
            found = compare(task, recorded, rebuild(task, recorded), limit=rows)
    except TwiceError:
        raise
    except Exception as error:
        raise _of_ours(task, error) from error
    finally:
        runtime.stores.release(task.session)
    return replace(found, remarks=[*found.remarks, *refused]) if refused else found


def _of_ours(task: Task, error: Exception) -> TwiceError:
    problem = explained(task, error)
    if isinstance(problem, TransientError):
        return TransientError(
            problem.message, unchanged="nothing was written", next_step="run the same command again later"
        )
    return problem


def _report(
    runtime: Runtime, recorded: Recorded, state: State, detail: str = "", data: Mapping[str, object] | None = None
) -> None:
    run, step = recorded.run, recorded.step.name
    runtime.listener(Event(state, run.id, run.pipeline, str(recorded.attempt.scope), step, detail, data or {}))
