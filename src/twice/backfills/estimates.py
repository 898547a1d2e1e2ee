"""Estimates from earlier runs: how many rows a unit has, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twice.backfills.request import producers
from twice.errors import UsageError
from twice.model.patterns import Whole

if TYPE_CHECKING:
    from twice.engine.status import StepStatus
    from twice.ledger import Ledger, Past
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step


def executor_seconds(ledger: Ledger | None, pipeline: Pipeline, step: Step, partitions: int) -> float | None:
    """Estimate the cost of some partitions of a step from its newest attempts whose cost is recorded."""
    if ledger is None or not partitions:
        return None
    past = ledger.attempts.past(step.pipeline, step.name)
    costs = [(cost, _count(pipeline, step, each)) for each in past if (cost := _cost(each)) is not None]
    made = sum(count for _, count in costs)
    return sum(cost for cost, _ in costs) / made * partitions if made else None


def usual_rows(pipeline: Pipeline, step: Step, found: Mapping[str, StepStatus]) -> float | None:
    """Return the rows of a usual partition: of the table itself or of its inputs, whichever has more."""
    own = _mean(found[step.name])
    made = [mean for each in producers(pipeline, step) if (mean := _mean(found[each.name])) is not None]
    # Inputs that no step of this pipeline writes are not counted here: without a result the planner estimates them.
    return max([*made, *([own] if own is not None else [])], default=None)


def _count(pipeline: Pipeline, step: Step, past: Past) -> int:
    """Count the partitions of an attempt; a table without partitions counts by the units that were merged into it."""
    if isinstance(step.writes.write, Whole):
        return 1
    window = past.scope.window or past.window
    grain = step.writes.partition.grain if step.writes.partition else pipeline.grain
    try:
        return sum(1 for _ in grain.partitions(window, pipeline.zone)) if window else 1
    except UsageError:  # the grain was different then
        return 1


def _cost(past: Past) -> float | None:
    cost = past.details.get("cost")
    found = cost.get("executor_seconds") if isinstance(cost, Mapping) else None
    return float(found) if isinstance(found, int | float) else None


def _mean(found: StepStatus) -> float | None:
    rows = [part.rows for part in found.partitions if part.rows is not None and part.scope.window is not None]
    return sum(rows) / len(rows) if rows else None
