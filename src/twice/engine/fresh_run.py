"""A run that has nothing to do, found out without Spark: every table is at the version that the ledger has recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.attempt.outputs import Finding
from twice.engine.attempt.task import StepResult
from twice.engine.events import Event, Listener, State
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.run import RunResult
from twice.engine.stores import Stores
from twice.ledger import find_ledger
from twice.model.content import Content
from twice.store.protocol import Peeking

if TYPE_CHECKING:
    from twice.config import Config
    from twice.engine.plan import PlannedStep
    from twice.ledger import InputRecord, Ledger, Output
    from twice.model.pipelines import Pipeline
    from twice.model.tables import Table


def find_fresh(
    config: Config,
    pipeline: Pipeline,
    steps: Sequence[PlannedStep],
    command: str,
    *,
    tags: Mapping[str, str],
    listener: Listener,
) -> RunResult | None:
    """Record and return a run all of whose steps are fresh; None where only Spark can find out.

    A table that another partition was published to since has another version: its files must be compared.
    """
    ledger = find_ledger(config.ledger)
    if ledger is None:
        return None
    versions = _Versions(Stores(config))
    outputs = [_fresh(ledger, pipeline, step, versions) for step in steps]
    known = [found for found in outputs if found is not None]
    if len(known) < len(steps):
        return None
    scope = steps[0].scope
    with recorded_run(ledger, pipeline.name, scope, command=command, tags=tags) as run:
        result = RunResult(run, pipeline.name, str(scope))
        _report(listener, result, "started")
        for step, found in zip(steps, known, strict=True):
            result.steps.append(_recorded(ledger, run, step, found))
            _report(listener, result, "fresh", step.step.name, {"rows": result.steps[-1].rows})
    result.status = "done"
    _report(listener, result, "finished")
    return result


class _Versions:
    """The versions of tables as they are now, each asked once."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._found: dict[str, str | None] = {}

    def of(self, table: Table) -> str | None:
        """Return a table's version; None where only Spark can find out."""
        if table.name not in self._found:
            source = self._stores.source(table)
            self._found[table.name] = source.peek(table) if isinstance(source, Peeking) else None
        return self._found[table.name]


def _fresh(ledger: Ledger, pipeline: Pipeline, step: PlannedStep, versions: _Versions) -> list[Output] | None:
    """Return what is recorded of a step's partitions, if it was made by this code from what is there now."""
    table, code = step.step.writes, fingerprint(step.step)
    version = versions.of(table)
    held = {output.scope: output for output in ledger.outputs.held(table.name, step.target.scope)}
    outputs = [held[partition] for partition in step.target.partitions if partition in held]
    if version is None or len(outputs) < len(step.target.partitions):
        return None
    for output in outputs:
        if output.version != version or output.code != code or not _same_inputs(step, output.inputs, versions):
            return None
    return outputs if _effects_are_paid(ledger, pipeline, table, outputs) else None


def _same_inputs(step: PlannedStep, recorded: Sequence[InputRecord], versions: _Versions) -> bool:
    """Compare versions: what a version holds does not change. A `.latest()` read is not tracked."""
    before = {record.name: record for record in recorded if record.mode != "scope"}
    if before.keys() != step.step.reads.keys():
        return False
    for name, read in step.step.reads.items():
        record = before[name]
        if (record.table, record.mode) != (read.table.name, read.mode):
            return False
        if read.mode != "latest" and (record.version is None or record.version != versions.of(read.table)):
            return False
        if not all(Content.read(text).is_known for text in record.partitions.values()):
            return False
    # One record of a table without partitions serves every window: it must be this one's.
    scopes = [text for record in recorded if record.mode == "scope" for text in record.partitions.values()]
    return all(text == Content("run", str(step.scope)).text for text in scopes)


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
