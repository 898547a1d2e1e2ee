"""Which units of a step need work, and why: the planner's view of what `status` reports."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twice.backfills.merges import Now
from twice.model.patterns import Whole
from twice.model.scopes import Scope
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.engine.status import PartitionStatus, StepStatus
    from twice.engine.status.inputs import Sources
    from twice.ledger import Ledger, Merged
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step

# In order of precedence: the first state that any partition has is the unit's.
_WORST = ("failed", "running", "missing", "stale", "done")


@dataclass(frozen=True)
class Unit:
    """One unit of the pipeline's grain, with the partitions of the step's table that it is made of."""

    window: Window
    state: str
    partitions: int = 1
    rows: int | None = None
    code_only: bool = False
    late: str = ""


def units_of(
    ledger: Ledger | None,
    pipeline: Pipeline,
    step: Step,
    found: StepStatus,
    windows: Sequence[Window],
    run: Scope,
    sources: Sources | None = None,
) -> list[Unit]:
    """Judge every unit of a range for one step; `sources` returns what the inputs hold now."""
    if step.writes.partition is None:
        moved = any(reason.kind in ("undone", "touched") for part in found.partitions for reason in part.reasons)
        last = _last_merged(ledger, pipeline, step, windows, run)
        now = Now(ledger, pipeline, step, Window(windows[0].start, windows[-1].end), sources)
        return [Unit(window, "stale" if moved else now.state(merged, window)) for window, merged in last.items()]
    dimensions = step.writes.scope(run).dimensions
    starts = [window.start for window in windows]
    inside: list[list[PartitionStatus]] = [[] for _ in windows]
    for partition in _for_dimensions(found.partitions, dimensions):
        assert partition.scope.window is not None  # noqa: S101 - the table has partitions
        index = bisect_right(starts, partition.scope.window.start) - 1
        if index >= 0 and partition.scope.window.start < windows[index].end:
            inside[index].append(partition)
    grain, zone = step.writes.partition.grain, pipeline.zone
    alike = grain == pipeline.grain
    return [
        _unit(window, parts, 1 if alike else sum(1 for _ in grain.partitions(window, zone)))
        for window, parts in zip(windows, inside, strict=True)
    ]


def _unit(window: Window, parts: Sequence[PartitionStatus], count: int) -> Unit:
    if not parts:
        return Unit(window, "missing", count)
    by_window: dict[object, set[str]] = {}
    for part in parts:
        by_window.setdefault(part.scope.window, set()).add(part.state)
    states = {part.state for part in parts} | ({"missing"} if len(by_window) < count else set())
    state = next(state for state in _WORST if state in states)
    reasons = [reason for part in parts for reason in part.reasons]
    rows = [part.rows for part in parts if part.rows is not None]
    late = next((reason.text for reason in reasons if reason.kind == "late"), "") if state == "failed" else ""
    code_only = state == "stale" and all(reason.kind == "code" for reason in reasons)
    return Unit(window, state, count, sum(rows) if rows else None, code_only, late)


def _for_dimensions(
    partitions: Sequence[PartitionStatus], dimensions: tuple[tuple[str, str], ...]
) -> Iterator[PartitionStatus]:
    """Pick the lines about some dimension values; a run of all values covers each of them."""
    if not dimensions:
        whole = {part.scope.window for part in partitions if not part.scope.dimensions}
        yield from (part for part in partitions if part.scope.window in whole)
        return
    mine = {part.scope.window: part for part in partitions if part.scope.dimensions == dimensions}
    yield from mine.values()
    yield from (part for part in partitions if not part.scope.dimensions and part.scope.window not in mine)


def _last_merged(
    ledger: Ledger | None, pipeline: Pipeline, step: Step, windows: Sequence[Window], run: Scope
) -> dict[Window, Merged | None]:
    """Find for each unit of a table without partitions the last run that covered it."""
    if isinstance(step.writes.write, Whole):
        windows = windows[-1:]  # the newest window is the table
    last: dict[Window, Merged | None] = dict.fromkeys(windows)
    starts = [window.start for window in windows]
    for merged in ledger.attempts.merged(pipeline.name, step.name) if ledger else []:
        scope = merged.scope
        if merged.status == "accepted":  # from here on, what was made before counts as made by that code
            last = {window: replace(before, code=merged.code) if before else None for window, before in last.items()}
            continue
        if scope.window is None or not set(scope.dimensions) <= set(run.dimensions):
            continue
        first, end = bisect_right(starts, scope.window.start), bisect_right(starts, scope.window.end)
        for window in windows[max(first - 1, 0) : end]:
            if scope.window.covers(window):
                last[window] = merged
    return last
