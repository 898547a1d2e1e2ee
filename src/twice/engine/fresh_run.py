"""A run that has nothing to do, found out without Spark: code, inputs and files are the recorded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.attempt.inputs import contents, with_scope
from twice.engine.attempt.outputs import Finding
from twice.engine.attempt.skipping import same_inputs
from twice.engine.attempt.task import StepResult
from twice.engine.events import Event, Listener, State
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.run import RunResult
from twice.engine.status.peeked_state import NeedsSpark
from twice.ledger import InputRecord

if TYPE_CHECKING:
    from twice.engine.plan import PlannedStep
    from twice.engine.status.peeked_state import PeekedState
    from twice.ledger import Ledger, Output
    from twice.model.pipelines import Pipeline
    from twice.model.tables import Table


def find_fresh(
    ledger: Ledger,
    state: PeekedState,
    pipeline: Pipeline,
    steps: Sequence[PlannedStep],
    command: str,
    *,
    tags: Mapping[str, str],
    listener: Listener,
) -> RunResult | None:
    """Record and return a run all of whose steps are fresh; None where only Spark can find out."""
    outputs: list[list[Output]] = []
    for step in steps:
        try:
            fresh = _fresh(ledger, pipeline, step, state)
        except NeedsSpark:
            fresh = None
        if fresh is None:
            return None
        outputs.append(fresh)
    scope = steps[0].scope
    with recorded_run(ledger, pipeline.name, scope, command=command, tags=tags) as run:
        result = RunResult(run, pipeline.name, str(scope))
        _report(listener, result, "started")
        for step, found in zip(steps, outputs, strict=True):
            result.steps.append(_recorded(ledger, run, step, found))
            _report(listener, result, "fresh", step.step.name, {"rows": result.steps[-1].rows})
    result.status = "done"
    _report(listener, result, "finished")
    return result


def _fresh(ledger: Ledger, pipeline: Pipeline, step: PlannedStep, state: PeekedState) -> list[Output] | None:
    """Return what is recorded of a step's partitions, if it was made by this code from what is there now."""
    table, code, target = step.step.writes, fingerprint(step.step), step.target
    held = {output.scope: output for output in ledger.outputs.held(table.name, target.scope)}
    outputs = [held[partition] for partition in target.partitions if partition in held]
    if len(outputs) < len(target.partitions) or any(output.code != code for output in outputs):
        return None
    state.check(table)
    files = state.outputs(target)
    if any(output.files != files[output.scope] for output in outputs):
        return None
    now = _inputs(ledger, pipeline, step, state)
    if not all(same_inputs(output.inputs, now) for output in outputs):
        return None
    return outputs if _effects_are_paid(ledger, pipeline, table, outputs) else None


def _inputs(ledger: Ledger, pipeline: Pipeline, step: PlannedStep, state: PeekedState) -> Sequence[InputRecord]:
    """Return what a run would record of its inputs now."""
    window, zone = step.scope.window, pipeline.zone
    assert window is not None  # noqa: S101 - a run always has a window
    found = []
    for name, read in step.step.reads.items():
        table = read.table
        if table.id == step.step.writes.id:
            raise NeedsSpark(table.name)  # a step that builds on its past must find all of it
        # A `.latest()` read is not tracked, but the table must be there.
        version = state.version(table) if read.mode in ("as_of", "latest") else None
        cut = read.cut(window, step.step.writes.lateness, zone)
        now = contents(ledger, state, read, cut, step.scope.dimensions, zone, version)
        if now is None:
            raise NeedsSpark(table.name)
        found.append(InputRecord(name, table.name, read.mode, version, now))
    return with_scope(found, step.scope, step.target)


def _effects_are_paid(ledger: Ledger, pipeline: Pipeline, table: Table, outputs: Sequence[Output]) -> bool:
    """Return whether no effect is owed for what the table holds."""
    scopes = [output.scope for output in outputs]
    for effect in pipeline.effects_after(table):
        paid = ledger.effects.paid(pipeline.name, effect.name, scopes)
        if any(paid.get(output.scope) != output.digest for output in outputs):
            return False
    return True


def _recorded(ledger: Ledger, run: str, step: PlannedStep, outputs: Sequence[Output]) -> StepResult:
    table, scope = step.step.writes.name, step.target.scope
    attempt = ledger.attempts.start(run, step.step.name, table, 1, scope, code=outputs[0].code)
    ledger.attempts.finish(attempt, "fresh")
    found = Finding("fresh", outputs, sum(output.rows for output in outputs), outputs[0].version)
    return StepResult(step.step.name, table, str(scope), "fresh", found.rows, found.digest, found.version)


def _report(
    listener: Listener, result: RunResult, state: State, step: str = "", data: Mapping[str, object] | None = None
) -> None:
    listener(Event(state, result.run, result.pipeline, result.scope, step, data=data or {}))
