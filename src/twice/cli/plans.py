"""The plan of a backfill, for a human."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twice.backfills.planning import Plan, StepPlan

# More than this many chunks of a step are not listed one by one.
_SHOWN = 12


def lines(plan: Plan) -> Iterator[str]:
    """Show the steps that a run would execute, step by step."""
    total = sum(step.partitions for step in plan.steps)
    if plan.nothing_to_do:
        yield f"{plan.pipeline.name}: nothing to do, every partition of the range is up to date"
    else:
        chunks = sum(len(step.chunks) for step in plan.steps)
        at_once = plan.request.parallel
        order = "newest first" if plan.request.order == "backward" else "oldest first"
        yield f"{plan.pipeline.name}: {total} partitions in {chunks} chunks, {at_once} at once, {order}"
    known = [step.seconds for step in plan.steps if step.seconds is not None]
    if known:
        yield f"  about {sum(known):.0f} executor seconds, from earlier runs"
    for step in plan.steps:
        yield from _step(step)


def _step(step: StepPlan) -> Iterator[str]:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(step.counts.items()))
    yield f"  {step.step.name} → {step.step.writes.name}: {counts}"
    if step.reused:
        yield f"    {step.reused} landed partitions are reused; --refetch fetches them again"
    for unit, why in step.blocked[:_SHOWN]:
        yield f"    not built: {unit.window}: {why}"
    if step.perhaps:
        yield f"    {step.perhaps} more if the earlier steps change what they are built from"
    if not step.chunks:
        if not step.perhaps:
            yield "    nothing to do"
        return
    yield f"    {step.batching.why}"
    for chunk in step.chunks[:_SHOWN]:
        yield f"    {chunk.text}"
    if len(step.chunks) > _SHOWN:
        yield f"    … and {len(step.chunks) - _SHOWN} more chunks"
