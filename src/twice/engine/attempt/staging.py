"""Compute and stage: the step's result is written once, where no reader looks."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from twice.engine.attempt.compute import batches
from twice.engine.attempt.inputs import Pinned, records
from twice.engine.attempt.patterns import strategy_of
from twice.engine.attempt.reading import bind
from twice.engine.chunks.task_per_partition import spread
from twice.failpoints import fail_point

if TYPE_CHECKING:
    from twice.engine.attempt.stage_result import StageResult
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim


def stage(task: Task, claim: Claim, inputs: list[Pinned]) -> StageResult:
    """Compute the step's result and write it where it can be fenced."""
    task.report("computing")
    bound = {pinned.name: bind(task, pinned) for pinned in inputs}
    with spread(task, inputs, bound):
        results = batches(task, bound)
        first = next(results)
        task.store.prepare(task.session, task.step.writes, first.schema)
        staged = task.store.open(task.session, task.target, claim.token)
        # A run that took over before staging was opened found nothing to fence; a lost claim is refused here.
        task.ledger.leases.bind(task.attempt_id, claim, base_version=staged.base, inputs=records(task, inputs))
        fail_point("claim.fenced")
        result = strategy_of(task.step.writes).stage(task, staged, chain([first], results))
    fail_point("stage.written")
    task.report("staged")
    return result
