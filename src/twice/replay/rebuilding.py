"""One step of a recorded run computed again, from what it read and with the settings that it had."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from twice.content.filters import scope_filter
from twice.content.rows import column
from twice.engine.attempt.compute import batches
from twice.engine.attempt.merging import compare_by_key, matched_columns
from twice.engine.attempt.reading import bind
from twice.engine.attempt.task import Task
from twice.engine.chunks.options import ChunkOptions
from twice.engine.spark.environment import put_back
from twice.engine.spark.session import fresh
from twice.errors import StoreRefused
from twice.model.patterns import InsertOnly, Merge, Overwrite
from twice.model.targets import Target
from twice.replay.pinning import is_readable, pin_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.run import Runtime
    from twice.replay.recorded import Recorded


def task_of(runtime: Runtime, recorded: Recorded) -> tuple[Task, list[str]]:
    """Return the task of a recorded step, and the settings of its run that cannot be put back."""
    run, step, pipeline = recorded.run, recorded.step, recorded.pipeline
    session = fresh(runtime.spark, pipeline.zone.key)
    refused = put_back(session, run.environment)
    task = Task(
        pipeline=pipeline,
        step=step,
        scope=run.scope,
        target=Target.of(step.writes, run.scope, pipeline.zone),
        # Its Spark jobs do not belong to the run, which may share this Spark.
        run=f"replay-{run.id}",
        code=recorded.attempt.code,
        session=session,
        stores=runtime.stores,
        ledger=runtime.ledger,
        lease=runtime.lease,
        # The partitions of a chunk see their inputs as if each were computed alone.
        chunk=ChunkOptions(partial="backfill" in run.tags and isinstance(step.writes.write, Overwrite)),
        listener=runtime.listener,
    )
    return task, refused


def rebuild(task: Task, recorded: Recorded) -> DataFrame:
    """Return what the step makes of its recorded inputs: the scope as it would be published."""
    inputs = pin_again(task, recorded.attempt.inputs)
    merges = isinstance(task.step.writes.write, Merge | InsertOnly)
    if merges:
        _require_base(task, recorded)
    bound = {pinned.name: bind(task, pinned) for pinned in inputs}
    rows = reduce(lambda one, other: one.unionByName(other), batches(task, bound))
    return _merged(task, recorded, rows) if merges else rows


def _require_base(task: Task, recorded: Recorded) -> None:
    """Refuse a merge into a version that has expired."""
    table, base = task.step.writes, recorded.attempt.base_version
    if is_readable(task, table, base):
        return
    abilities = task.store.abilities
    why = "is gone" if abilities.history else f"is not kept: a {abilities.kind} store has no earlier versions"
    raise StoreRefused(
        f"its rows were merged into version {base} of {table.name}, which {why}",
        next_step="twice maintain --keep sets how long versions stay readable" if abilities.history else "",
    )


def _merged(task: Task, recorded: Recorded, rows: DataFrame) -> DataFrame:
    """Merge rows into the table as it was at the claim, outside of the table."""
    base = task.store.read(task.session, task.step.writes, recorded.attempt.base_version).where(
        scope_filter(task.target)
    )
    # Read several times: a lost block must fail the replay, not be recomputed.
    written, _ = compare_by_key(task, rows.localCheckpoint(), base)
    matched = matched_columns(task.step.writes)
    keys = written.select(*(column(name).alias(f"_twice_k{place}") for place, name in enumerate(matched)))
    same = reduce(lambda one, other: one & other, (column(n) == column(f"_twice_k{i}") for i, n in enumerate(matched)))
    return base.join(keys, same, "left_anti").unionByName(written, allowMissingColumns=True)
