"""A run whose scope another run holds, found out before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.engine.attempt.claiming import live_holder
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.run import RunResult
from twice.errors import ScopeHeld
from twice.ledger import find_ledger

if TYPE_CHECKING:
    from twice.engine.plan import PlannedStep
    from twice.ledger import LeaseInfo, Ledger
    from twice.model.pipelines import Pipeline


def find_held(
    url: str, pipeline: Pipeline, steps: Sequence[PlannedStep], command: str, *, tags: Mapping[str, str]
) -> RunResult | None:
    """Record and return a run that ends because another one holds a scope of it; None if it may start.

    The claim itself decides: a scope that is taken after this check is refused there.
    """
    ledger = find_ledger(url)
    error = _refusal(ledger, pipeline, steps) if ledger is not None else None
    if ledger is None or error is None:
        return None
    run, scope = "", steps[0].scope
    try:
        with recorded_run(ledger, pipeline.name, scope, command=command, tags=tags) as run:
            raise error
    except ScopeHeld:
        return RunResult(run, pipeline.name, str(scope), "held", error=error)


def _refusal(ledger: Ledger, pipeline: Pipeline, steps: Sequence[PlannedStep]) -> ScopeHeld | None:
    """Return why a run cannot start; what another pipeline does to a later step's table may be over by then."""
    for number, step in enumerate(steps):
        holder = live_holder(ledger, step.step.writes.name, step.target.scope)
        if holder is not None and (number == 0 or _is_the_same_run(ledger, holder, pipeline, step)):
            return holder.refusal([step.target.scope])
    return None


def _is_the_same_run(ledger: Ledger, holder: LeaseInfo, pipeline: Pipeline, step: PlannedStep) -> bool:
    """Return whether the holder runs the same unit of the same pipeline, so that both would do the same."""
    if holder.run is None:
        return False
    other = ledger.runs.get(holder.run)
    return other.pipeline == pipeline.name and other.scope == step.scope
