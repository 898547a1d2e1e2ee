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
from twice.engine.attempt.inputs import Pinned, bind, pin_unit, require_unmoved
from twice.errors import NotSeparable
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.job import Job
    from twice.engine.attempt.staging import Staged
    from twice.model.windows import Window


def compare_alone(job: Job, inputs: Sequence[Pinned], staged: Staged, verdict: Verdict) -> None:
    """Refuse a chunk one of whose units has other rows when it is computed alone."""
    if job.solo is not None and job.units:
        job.vouch.once(lambda: _compare(job, inputs, staged, verdict))


def _compare(job: Job, inputs: Sequence[Pinned], staged: Staged, verdict: Verdict) -> bool:
    """Compare one unit; False if it has no rows on either side, which proves nothing."""
    unit = _unit(job, verdict)
    scope = Scope(unit, job.scope.dimensions)
    alone = replace(job, scope=scope, target=Target.of(job.step.writes, scope, job.pipeline.zone), solo=None)
    staged_rows = job.store.staged(job.session, staged.stage)
    bound = {pinned.name: bind(alone, pinned) for pinned in pin_unit(alone, inputs)}
    computed = reduce(lambda one, other: one.unionByName(other), batches(alone, bound))
    parts = {partition: digest for partition, digest in verdict.digests.items() if job.unit_of(partition) == unit}
    # What a gate refused is not published, and its content not known.
    passed = reduce(lambda one, other: one | other, (partition_filter(alone.target, each) for each in parts))
    whole = not any(job.unit_of(partition) == unit for partition in verdict.refused)
    rows = shaped(computed, staged_rows.schema)
    rows = rows if whole else rows.where(passed)
    inexact = order_sensitive(staged_rows.schema)
    if inexact:
        # The last digits of such sums depend on how rows are spread over tasks: they are compared by and large.
        in_chunk = staged_rows.where(scope_filter(alone.target) if whole else passed)
        mine, theirs = digest_of(rows.drop(*inexact)), digest_of(in_chunk.drop(*inexact))
        same = mine == theirs and nearly(rows, in_chunk, inexact)
    else:
        mine, theirs = digest_of(rows), reduce(lambda one, other: one + other, parts.values())
        same = mine == theirs or mine.rows == theirs.rows == 0
    if not same:
        require_unmoved(job, inputs)
        raise _different(job, alone, mine, theirs)
    return mine.rows > 0


def _unit(job: Job, verdict: Verdict) -> Window:
    """Return the unit that was asked for, or the nearest one that has rows and that no gate refused a part of."""
    refused = {job.unit_of(partition) for partition in verdict.refused}
    passed = {job.unit_of(partition) for partition in verdict.digests}
    # No rows alone and no rows together would prove nothing.
    filled = {job.unit_of(partition) for partition, digest in verdict.digests.items() if digest.rows}
    assert job.solo is not None  # noqa: S101 - the caller asked
    units = list(job.units)
    wanted = job.unit_of(job.solo)
    middle = units.index(wanted) if wanted in units else len(units) // 2
    # The later one of two: what adds up over days shows there.
    nearest = sorted(range(len(units)), key=lambda place: (abs(place - middle), -place))
    able = [units[place] for place in nearest if units[place] in passed]
    return min(able, key=lambda unit: (unit not in filled, unit in refused))


def _different(job: Job, alone: Job, mine: Digest, theirs: Digest) -> NotSeparable:
    partition = alone.target.name(alone.target.partitions[0])
    return NotSeparable(
        f"step {job.step.name} is not separable: {partition} of {job.step.writes.name} computed alone has the digest "
        f"{mine.text}, computed together with {len(job.units) - 1} more it has {theirs.text}",
        unchanged="nothing of the chunk was published",
        next_step=f"declare separable=False at the step {job.step.name}, so that every partition is computed alone, "
        "or keep partitions apart in the step",
    )
