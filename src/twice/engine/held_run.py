"""A run whose scope another run holds, found out before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.engine.attempt.claiming import live_holder
from twice.engine.operations.recorded_run import end_run
from twice.engine.run import RunResult
from twice.ledger import find_ledger

if TYPE_CHECKING:
    from twice.engine.plan import PlannedStep
    from twice.model.pipelines import Pipeline


def find_held(
    url: str, pipeline: Pipeline, steps: Sequence[PlannedStep], command: str, *, tags: Mapping[str, str]
) -> RunResult | None:
    """Record and return a run that ends because another one holds a scope of it; None if all are free now.

    The claim decides for good: a scope that is taken after this look is refused there.
    """
    ledger = find_ledger(url)
    if ledger is None:
        return None
    for step in steps:
        if holder := live_holder(ledger, step.step.writes.name, step.target.scope):
            run = ledger.runs.start(pipeline.name, steps[0].scope, command=command, tags=tags)
            error = holder.refusal([step.target.scope])
            end_run(ledger, run, "held", str(error))
            return RunResult(run, pipeline.name, str(steps[0].scope), "held", error=error)
    return None
