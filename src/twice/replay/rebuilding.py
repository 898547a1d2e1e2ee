"""One step of a recorded run computed again, from what it read and with the settings that it had."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from twice.content.filters import scope_filter
from twice.content.rows import column
from twice.engine.attempt.compute import batches
from twice.engine.attempt.inputs import bind
from twice.engine.attempt.job import Job
from twice.engine.attempt.staging import compare_by_key, matched_columns
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


def job_of(runtime: Runtime, recorded: Recorded) -> tuple[Job, list[str]]:
    """Return the job of a recorded step, and the settings of its run that cannot be put back."""
    run, step, pipeline = recorded.run, recorded.step, recorded.pipeline
    session = fresh(runtime.spark, pipeline.zone.key)
    refused = put_back(session, run.environment)
    job = Job(
        pipeline=pipeline,
        step=step,
        scope=run.scope,
        target=Target.of(step.writes, run.scope, pipeline.zone),
        # Its Spark jobs are no jobs of the run, which may share this Spark.
        run=f"replay-{run.id}",
        code=recorded.attempt.code,
        session=session,
        stores=runtime.stores,
        ledger=runtime.ledger,
        lease=runtime.lease,
        # The partitions of a chunk see their inputs as if each were computed alone.
        partial="backfill" in run.tags and isinstance(step.writes.write, Overwrite),
        listener=runtime.listener,
    )
    return job, refused


def rebuild(job: Job, recorded: Recorded) -> DataFrame:
    """Return what the step makes of its recorded inputs: the scope as it would be published."""
    inputs = pin_again(job, recorded.attempt.inputs)
    merges = isinstance(job.step.writes.write, Merge | InsertOnly)
    if merges:
        _require_base(job, recorded)
    bound = {pinned.name: bind(job, pinned) for pinned in inputs}
    rows = reduce(lambda one, other: one.unionByName(other), batches(job, bound))
    return _merged(job, recorded, rows) if merges else rows


def _require_base(job: Job, recorded: Recorded) -> None:
    """Refuse a merge into a version that has expired."""
    table, base = job.step.writes, recorded.attempt.base_version
    if is_readable(job, table, base):
        return
    abilities = job.store.abilities
    why = "is gone" if abilities.history else f"is not kept: a {abilities.kind} store has no earlier versions"
    raise StoreRefused(
        f"its rows were merged into version {base} of {table.name}, which {why}",
        next_step="twice maintain --keep says how long versions stay readable" if abilities.history else "",
    )


def _merged(job: Job, recorded: Recorded, rows: DataFrame) -> DataFrame:
    """Merge rows into the table as it was at the claim, outside of the table."""
    base = job.store.read(job.session, job.step.writes, recorded.attempt.base_version).where(scope_filter(job.target))
    # Read several times: a lost block must fail the replay, not be recomputed.
    written, _ = compare_by_key(job, rows.localCheckpoint(), base)
    matched = matched_columns(job.step.writes)
    keys = written.select(*(column(name).alias(f"_twice_k{place}") for place, name in enumerate(matched)))
    same = reduce(lambda one, other: one & other, (column(n) == column(f"_twice_k{i}") for i, n in enumerate(matched)))
    return base.join(keys, same, "left_anti").unionByName(written, allowMissingColumns=True)
