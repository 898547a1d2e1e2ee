"""A run as a list of planned steps: `--explain` prints the same objects that the run executes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twice.engine.attempt.determinism import inspect_code
from twice.errors import UsageError
from twice.model.patterns import InsertOnly, Merge
from twice.model.pipelines import Pipeline
from twice.model.scopes import Scope
from twice.model.steps import Step
from twice.model.targets import Target
from twice.model.windows import Window


@dataclass(frozen=True)
class PlannedStep:
    """One step for one scope."""

    step: Step
    scope: Scope
    target: Target

    @property
    def text(self) -> str:
        """The planned step in words."""
        table = self.step.writes
        assert table.write is not None  # noqa: S101 - a produced table has a pattern
        reads = "; ".join(f"{name} = {text}" for name, text in self._reads().items()) or "an external source"
        count = len(self.target.partitions)
        return (
            f"{self.step.name}: read {reads} → {table.write.text} {self.target.scope} of {table.name} "
            f"({count} partition{'s' if count != 1 else ''})"
        )

    def to_json(self) -> dict[str, object]:
        """Return the planned step as JSON scalars."""
        return {
            "step": self.step.name,
            "kind": self.step.kind,
            "table": self.step.writes.name,
            "pattern": type(self.step.writes.write).__name__,
            "scope": self.target.scope.to_json(),
            "partitions": [self.target.name(partition) for partition in self.target.partitions],
            "reads": self._reads(),
            "gates": [gate.text for gate in self.step.writes.gates],
        }

    def _reads(self) -> dict[str, str]:
        return {name: read.reach(self.step.writes.lateness) for name, read in self.step.reads.items()}


def plan(
    pipeline: Pipeline,
    window: Window,
    *,
    dimensions: Mapping[str, str] | None = None,
    steps: Sequence[str] | None = None,
) -> list[PlannedStep]:
    """List the steps of one run, upstream first; bad parameters are refused here, before anything starts."""
    if not pipeline.steps:
        raise UsageError(f"pipeline {pipeline.name} has no steps")
    chosen = {pipeline.find(name).name for name in steps} if steps else set(pipeline.steps)
    scope = Scope.of(window, dimensions)
    units = list(pipeline.grain.partitions(window, pipeline.zone))
    planned_steps = []
    for step in pipeline.ordered():
        if step.name in chosen:
            inspect_code(step)
            _check_dimensions(pipeline, step, scope)
            if step.depends_on_past and len(units) > 1:
                raise UsageError(
                    f"step {step.name} builds on its own past, so it runs one {pipeline.grain} at a time, not {window}",
                    next_step=f"twice run {pipeline.name} --from … --to … runs them one after the other",
                )
            planned_steps.append(PlannedStep(step, scope, Target.of(step.writes, scope, pipeline.zone)))
    return planned_steps


def _check_dimensions(pipeline: Pipeline, step: Step, scope: Scope) -> None:
    for name, _ in scope.dimensions:
        if name not in pipeline.dimensions:
            known = ", ".join(sorted(pipeline.dimensions)) or "none"
            raise UsageError(f"pipeline {pipeline.name} has no dimension {name!r}; its dimensions are: {known}")
        if name not in step.writes.dimensions and not isinstance(step.writes.write, Merge | InsertOnly):
            raise UsageError(
                f"step {step.name} writes {step.writes.name}, which has no dimension {name}: a run for one {name} "
                "would replace the rows of all of them",
                next_step=f'add "{name}" to dimensions= of the table, or choose other steps with --step',
            )
