"""Skip what need not be computed, decided against the table and not only against the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from twice.engine.attempt.differences import NEWEST, known_outputs
from twice.engine.attempt.inputs import Pinned, records
from twice.engine.attempt.lateness import overlooked, refuse_late_rows, takes_no_late_rows
from twice.engine.attempt.outputs import Finding
from twice.model.patterns import Whole

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim, InputRecord, Output
    from twice.model.scopes import Scope


def nothing_to_do(task: Task, claim: Claim, inputs: list[Pinned], *, waited: bool) -> Finding | None:
    """End the attempt early if the scope is superseded, or fresh and fresh scopes are to be skipped."""
    if isinstance(task.step.writes.write, Whole):
        newest = task.store.remembered(task.session, task.step.writes, NEWEST)
        assert task.scope.window is not None  # noqa: S101 - a run always has a window
        if newest and datetime.fromisoformat(newest) > task.scope.window.start:
            return end_early(task, claim, "superseded", [], {"newest": newest})
    if takes_no_late_rows(task):
        refuse_late_rows(task, *_before_and_now(task, inputs))
    if (task.skip_fresh or (waited and not task.rebuild_after_wait)) and (
        outputs := fresh_outputs(task, inputs)
    ) is not None:
        return end_early(task, claim, "fresh", outputs, {})
    return None


def _before_and_now(
    task: Task, inputs: list[Pinned]
) -> tuple[dict[Scope, Output], dict[Scope, tuple[InputRecord, ...]]]:
    """Return what each partition was made from, and what it would be made from now."""
    now = {unit: records(task, inputs, unit) for unit in set(map(task.unit_of, task.target.partitions))}
    return known_outputs(task), {partition: now[task.unit_of(partition)] for partition in task.target.partitions}


def end_early(
    task: Task, claim: Claim, status: str, outputs: Sequence[Output], details: Mapping[str, object]
) -> Finding:
    """End an attempt that has nothing to publish, and give its claim back."""
    task.ledger.leases.release(claim)
    task.ledger.attempts.finish(task.attempt_id, status, details=details)
    version = outputs[0].version if outputs else None
    return Finding(status, outputs, sum(output.rows for output in outputs), version, details)


def fresh_outputs(task: Task, inputs: list[Pinned]) -> list[Output] | None:
    """Return the recorded outputs if inputs, code and the table's files are the recorded ones."""
    known = known_outputs(task)
    files = task.store.files(task.session, task.target, task.store.version(task.session, task.step.writes))
    now = {unit: records(task, inputs, unit) for unit in map(task.unit_of, task.target.partitions)}
    found = []
    for partition in task.target.partitions:
        output = known.get(partition)
        if output is None or output.files != files[partition] or output.code != task.code:
            return None
        if not same_inputs(output.inputs, overlooked(task, output, now[task.unit_of(partition)])):
            return None
        found.append(output)
    return found


def same_inputs(recorded: Sequence[InputRecord], now: Sequence[InputRecord]) -> bool:
    """Compare inputs by content; a `.latest()` read is not tracked, so its version does not count."""
    before = {(record.name, record.table, record.mode): dict(record.partitions) for record in recorded}
    after = {(record.name, record.table, record.mode): dict(record.partitions) for record in now}
    return before == after
