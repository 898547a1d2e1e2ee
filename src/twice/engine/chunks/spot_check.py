"""One unit of a chunk computed alone, and compared with what it is in the chunk, before anything is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from twice.content.digest import Digest
from twice.content.filters import partition_filter, scope_filter
from twice.content.likeness import digest_of, nearly, shaped
from twice.content.schema import order_sensitive
from twice.engine.attempt.compute import batches
from twice.engine.attempt.inputs import Pinned, pin_unit
from twice.engine.attempt.reading import bind
from twice.engine.attempt.unmoved import require_unmoved
from twice.engine.chunks.options import ChunkOptions
from twice.errors import NotSeparable
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.stage_result import StageResult
    from twice.engine.attempt.task import Task
    from twice.model.windows import Window


def compare_alone(task: Task, inputs: Sequence[Pinned], result: StageResult, verdict: Verdict) -> None:
    """Refuse a chunk one of whose units has other rows when it is computed alone."""
    if task.chunk.check_alone is not None and task.units:
        task.chunk.spot_check.once(lambda: _compare(task, inputs, result, verdict))


def _compare(task: Task, inputs: Sequence[Pinned], result: StageResult, verdict: Verdict) -> bool:
    """Compare one unit; False if it has no rows on either side, which proves nothing."""
    unit = _unit(task, verdict)
    scope = Scope(unit, task.scope.dimensions)
    alone = replace(
        task,
        scope=scope,
        target=Target.of(task.step.writes, scope, task.pipeline.zone),
        chunk=ChunkOptions(partial=task.chunk.partial),
    )
    staged_rows = task.store.staged(task.session, result.staged)
    bound = {pinned.name: bind(alone, pinned) for pinned in pin_unit(alone, inputs)}
    computed = reduce(lambda one, other: one.unionByName(other), batches(alone, bound))
    parts = {partition: digest for partition, digest in verdict.digests.items() if task.unit_of(partition) == unit}
    # What a gate refused is not published, and its content is not known.
    passed = reduce(lambda one, other: one | other, (partition_filter(alone.target, each) for each in parts))
    whole = not any(task.unit_of(partition) == unit for partition in verdict.refused)
    rows = shaped(computed, staged_rows.schema)
    rows = rows if whole else rows.where(passed)
    inexact = order_sensitive(staged_rows.schema)
    if inexact:
        # The last digits of such sums depend on how rows are spread over tasks: they are compared approximately.
        in_chunk = staged_rows.where(scope_filter(alone.target) if whole else passed)
        mine, theirs = digest_of(rows.drop(*inexact)), digest_of(in_chunk.drop(*inexact))
        same = mine == theirs and nearly(rows, in_chunk, inexact)
    else:
        mine, theirs = digest_of(rows), reduce(lambda one, other: one + other, parts.values())
        same = mine == theirs or mine.rows == theirs.rows == 0
    if not same:
        require_unmoved(task, inputs)
        raise _different(task, alone, mine, theirs)
    return mine.rows > 0


def _unit(task: Task, verdict: Verdict) -> Window:
    """Return the requested unit, or the nearest one that has rows and that no gate refused a part of."""
    refused = {task.unit_of(partition) for partition in verdict.refused}
    passed = {task.unit_of(partition) for partition in verdict.digests}
    # No rows alone and no rows together would prove nothing.
    filled = {task.unit_of(partition) for partition, digest in verdict.digests.items() if digest.rows}
    asked = task.chunk.check_alone
    assert asked is not None  # noqa: S101 - the caller asked
    units = list(task.units)
    wanted = task.unit_of(asked)
    middle = units.index(wanted) if wanted in units else len(units) // 2
    # The later one of two: what adds up over days shows there.
    nearest = sorted(range(len(units)), key=lambda place: (abs(place - middle), -place))
    able = [units[place] for place in nearest if units[place] in passed]
    return min(able, key=lambda unit: (unit not in filled, unit in refused))


def _different(task: Task, alone: Task, mine: Digest, theirs: Digest) -> NotSeparable:
    partition = alone.target.name(alone.target.partitions[0])
    return NotSeparable(
        f"step {task.step.name} is not separable: {partition} of {task.step.writes.name} computed alone has the digest "
        f"{mine.text}, computed together with {len(task.units) - 1} more it has {theirs.text}",
        unchanged="nothing of the chunk was published",
        next_step=f"declare separable=False at the step {task.step.name}, so that every partition is computed alone, "
        "or keep partitions apart in the step",
    )
