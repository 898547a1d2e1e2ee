"""What a publish would change: the staged content against what the table holds now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.content.digest import Digest
from twice.content.filters import scope_filter
from twice.content.schema import schema_fingerprint
from twice.engine.attempt import gating
from twice.model.patterns import Whole
from twice.model.tombstones import PROPERTY, Tombstones

if TYPE_CHECKING:
    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.stage_result import StageResult
    from twice.engine.attempt.task import Task
    from twice.ledger import Output
    from twice.model.scopes import Scope

# Table property of whole-table writes: the start of the newest window that was published.
NEWEST = "twice.window_start"


def changed_partitions(task: Task, result: StageResult, verdict: Verdict) -> list[Scope]:
    """Return the partitions whose staged content is not what the table holds now."""
    if result.source is not None:
        return list(task.target.partitions) if result.changed else []
    files = task.store.files(task.session, task.target, result.staged.base)
    if not any(files.values()):
        return [partition for partition, digest in verdict.digests.items() if digest.rows]
    before = _recorded(task, files)
    if before is None:
        rows = task.store.read(task.session, task.step.writes, result.staged.base).where(scope_filter(task.target))
        before = {partition: seen.digest for partition, seen in gating.profiled(task, rows, key=()).items()}
    return [partition for partition, digest in verdict.digests.items() if not _equal(digest, before[partition])]


def files_after(task: Task, result: StageResult, changed: Sequence[Scope]) -> dict[Scope, str]:
    """Fingerprint each partition's files as they are once the changed ones are published."""
    kept = task.store.files(task.session, task.target, result.staged.base)
    if not changed:
        return dict(kept)
    new = task.store.staged_files(task.session, result.staged)
    return {partition: new[partition] if partition in changed else kept[partition] for partition in kept}


def known_outputs(task: Task) -> dict[Scope, Output]:
    """Return the recorded outputs of the target's partitions."""
    return {output.scope: output for output in task.ledger.outputs.held(task.step.writes.name, task.target.scope)}


def content_before(task: Task, result: StageResult) -> dict[Scope, Digest] | None:
    """Return what the scope held at the claim, if its files are the recorded ones (or none)."""
    return _recorded(task, task.store.files(task.session, task.target, result.staged.base))


def _recorded(task: Task, files: Mapping[Scope, str]) -> dict[Scope, Digest] | None:
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


def marks(task: Task) -> dict[str, str]:
    """Return what a whole-table write stores with the table, even if it changed nothing: how new it is."""
    if isinstance(task.step.writes.write, Whole) and task.scope.window is not None:
        return {NEWEST: task.scope.window.start.isoformat()}
    return {}


def tombstones(task: Task) -> dict[str, str]:
    """Return what a publish stores with the table about its effects: those that were settled before this run.

    The table keeps what it knows: a ledger that was restored from a backup may know less.
    """
    effects = [effect.name for effect in task.pipeline.effects_after(task.step.writes)]
    settled = task.ledger.effects.settled(task.pipeline.name, effects) if effects else []
    if not settled:
        return {}
    known = Tombstones.read(task.store.remembered(task.session, task.step.writes, PROPERTY))
    new = [(effect, scope) for effect, scope in settled if not known.cover(effect, scope)]
    return {PROPERTY: known.adding(new).text} if new else {}


def _equal(left: Digest, right: Digest) -> bool:
    return left == right or (left.rows == 0 and right.rows == 0)
