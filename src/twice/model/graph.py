"""The graph of a pipeline: which step writes a table, in which order steps run, and which graphs are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from twice.errors import DefinitionError

if TYPE_CHECKING:
    from twice.model.grains import Grain
    from twice.model.steps import Step
    from twice.model.tables import Table


def writer_of(table: Table, steps: Iterable[Step]) -> Step | None:
    """Return the step that writes a table, if one of these does."""
    return next((step for step in steps if step.writes.id == table.id), None)


def in_order(pipeline: str, steps: Sequence[Step]) -> list[Step]:
    """Return steps, each after those whose tables it reads; a cycle is refused."""
    done: list[Step] = []

    def visit(step: Step, path: list[Step]) -> None:
        if step in done:
            return
        if step in path:
            circle = " → ".join(s.name for s in (*path[path.index(step) :], step))
            raise DefinitionError(
                f"pipeline {pipeline} has a cycle: {circle}. One of these steps must not read the next"
            )
        for read in step.reads.values():
            upstream = writer_of(read.table, steps)
            if upstream and upstream is not step:
                visit(upstream, [*path, step])
        done.append(step)

    for step in steps:
        visit(step, [])
    return done


def check_grain(step: Step, grain: Grain, zone: ZoneInfo) -> None:
    """Refuse a table of which a run would own a part of a partition."""
    partition = step.writes.partition
    if partition and not grain.is_made_of(partition.grain, zone):
        raise DefinitionError(
            f"step {step.name}: pipeline {step.pipeline} runs by {grain} ({zone.key}), but "
            f"{step.writes.name} is partitioned by {partition.grain}: a run would own a part of a "
            f"partition. Give the table a grain of {grain} or finer, or the pipeline a grain that is made of "
            f"whole {partition.grain} partitions"
        )


def check_own_past(step: Step, grain: Grain) -> None:
    """Refuse a step that reads its own table, unless that is its past, declared and whole."""
    own = [name for name, read in step.reads.items() if read.table.id == step.writes.id]
    if own and not step.depends_on_past:
        raise DefinitionError(
            f"step {step.name} reads its own output {step.writes.name}: a rerun would build on the first "
            "run. Compute it from the inputs, or declare depends_on_past=True, which gives the step only "
            "earlier partitions and forces forward order, one partition at a time"
        )
    if step.depends_on_past:
        if not own:
            raise DefinitionError(
                f"step {step.name} declares depends_on_past but does not read {step.writes.name}: "
                "add it to reads= with .window(lookback=days(1)), or leave depends_on_past out"
            )
        for name in own:
            read = step.reads[name]
            if read.mode != "window" or not read.lookback:
                raise DefinitionError(
                    f"step {step.name}: read the past of {step.writes.name} with .window(lookback=days(1))"
                )
        if step.writes.partition is None or step.writes.partition.grain != grain:
            raise DefinitionError(
                f"step {step.name} depends on its past, so {step.writes.name} must be partitioned by "
                f"the pipeline's grain, {grain}"
            )
