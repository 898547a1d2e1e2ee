"""Skip what need not be done, decided against the table and not only against the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from twice.content.digest import Digest
from twice.content.filters import scope_filter
from twice.content.schema import schema_fingerprint
from twice.engine.attempt import gating
from twice.engine.attempt.gating import Verdict
from twice.engine.attempt.inputs import Pinned, records
from twice.engine.attempt.lateness import overlooked, refuse_late_rows, takes_no_late_rows
from twice.engine.attempt.outputs import Finding
from twice.engine.chunks.task_per_partition import staged_rows
from twice.model.patterns import Whole
from twice.model.tombstones import PROPERTY, Tombstones

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.staging import Staged
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim, InputRecord, Output
    from twice.model.scopes import Scope

# Table property of whole-table writes: the start of the newest window that was published.
NEWEST = "twice.window_start"


def nothing_to_do(task: Task, claim: Claim, inputs: list[Pinned], *, waited: bool) -> Finding | None:
    """End the attempt early if the scope is fresh (and that was asked for) or superseded."""
    if isinstance(task.step.writes.write, Whole):
        newest = task.store.remembered(task.session, task.step.writes, NEWEST)
        assert task.scope.window is not None  # noqa: S101 - a run always has a window
        if newest and datetime.fromisoformat(newest) > task.scope.window.start:
            return end_early(task, claim, "superseded", [], {"newest": newest})
    if takes_no_late_rows(task):
        refuse_late_rows(task, *_before_and_now(task, inputs))
    if (task.skip_fresh or (waited and not task.anew)) and (outputs := fresh_outputs(task, inputs)) is not None:
        return end_early(task, claim, "fresh", outputs, {})
    return None


def _before_and_now(
    task: Task, inputs: list[Pinned]
) -> tuple[dict[Scope, Output], dict[Scope, tuple[InputRecord, ...]]]:
    """Return what each partition was made from, and what it would be made from now."""
    now = {unit: records(task, inputs, unit) for unit in set(map(task.unit_of, task.target.partitions))}
    return known_outputs(task), {partition: now[task.unit_of(partition)] for partition in task.target.partitions}


def marks(task: Task) -> dict[str, str]:
    """Return what a whole-table write leaves with the table, also when it changed nothing: how new it is."""
    if isinstance(task.step.writes.write, Whole) and task.scope.window is not None:
        return {NEWEST: task.scope.window.start.isoformat()}
    return {}


def tombstones(task: Task) -> dict[str, str]:
    """Return what a publish leaves with the table about its effects: those that were settled before this run.

    The table keeps what it knows: a ledger that was restored from a backup may know less.
    """
    effects = [effect.name for effect in task.pipeline.effects_after(task.step.writes)]
    settled = task.ledger.effects.settled(task.pipeline.name, effects) if effects else []
    if not settled:
        return {}
    known = Tombstones.read(task.store.remembered(task.session, task.step.writes, PROPERTY))
    new = [(effect, scope) for effect, scope in settled if not known.cover(effect, scope)]
    return {PROPERTY: known.adding(new).text} if new else {}


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


def known_outputs(task: Task) -> dict[Scope, Output]:
    """Return the recorded outputs of the target's partitions."""
    return {output.scope: output for output in task.ledger.outputs.held(task.step.writes.name, task.target.scope)}


def content_after(task: Task, staged: Staged) -> Verdict:
    """Return the content of a merged scope after the publish, and check its keys."""
    if not staged.changed and (before := _content_before(task, staged)) is not None:
        return Verdict(before)
    if staged.changed:
        with staged_rows(task, staged.stage) as rows:
            return _merged(task, rows)
    base = task.store.read(task.session, task.step.writes, staged.stage.base)
    return _merged(task, base.where(scope_filter(task.target)))


def _merged(task: Task, rows: DataFrame) -> Verdict:
    found = gating.profiled(task, rows, key=task.step.writes.key)
    gating.refuse_bad_keys(task, rows, found, where="the merged table")
    verdict = Verdict({partition: seen.digest for partition, seen in found.items()})
    gating.judge_growth(task, verdict)
    return verdict


def changed_partitions(task: Task, staged: Staged, verdict: Verdict) -> list[Scope]:
    """Return the partitions whose staged content is not what the table holds now."""
    if staged.source is not None:
        return list(task.target.partitions) if staged.changed else []
    before = _content_before(task, staged)
    if before is None:
        rows = task.store.read(task.session, task.step.writes, staged.stage.base).where(scope_filter(task.target))
        before = {partition: seen.digest for partition, seen in gating.profiled(task, rows, key=()).items()}
    return [partition for partition, digest in verdict.digests.items() if not _equal(digest, before[partition])]


def files_after(task: Task, staged: Staged, changed: Sequence[Scope]) -> dict[Scope, str]:
    """Fingerprint each partition's files as they are once the changed ones are published."""
    kept = task.store.files(task.session, task.target, staged.stage.base)
    if not changed:
        return dict(kept)
    new = task.store.files(task.session, task.target, staged.stage.version)
    return {partition: new[partition] if partition in changed else kept[partition] for partition in kept}


def _content_before(task: Task, staged: Staged) -> dict[Scope, Digest] | None:
    """Return what the scope held at the claim, if its files are the recorded ones (or none)."""
    files = task.store.files(task.session, task.target, staged.stage.base)
    known = known_outputs(task)
    rows = task.store.read(task.session, task.step.writes, None)
    empty = Digest.empty(schema_fingerprint(rows.schema))
    found: dict[Scope, Digest] = {}
    for partition, fingerprint in files.items():
        output = known.get(partition)
        if not fingerprint:
            found[partition] = empty
        elif output is not None and output.files == fingerprint:
            found[partition] = Digest.parse(output.digest)
        else:
            return None
    return found


def _equal(left: Digest, right: Digest) -> bool:
    return left == right or (left.rows == 0 and right.rows == 0)
