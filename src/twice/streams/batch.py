"""One micro-batch is one publish, by the same verbs as a run: claim, recover, stage, gate, publish, record.

The number of the batch is committed together with its rows, so that a batch that Spark delivers again is a no-op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.engine.attempt import gating
from twice.engine.attempt.compute import batches
from twice.engine.attempt.fingerprint import keep_parts
from twice.engine.attempt.freshness import end_early
from twice.engine.attempt.holding import held, noted
from twice.engine.attempt.outputs import Finding
from twice.engine.attempt.verbs import commit_stage, record, recover
from twice.engine.run import run_step
from twice.failpoints import fail_point
from twice.model.framework import WINDOW_COLUMN
from twice.model.streams import STREAM_MARK, Process, StreamMark, Windowed
from twice.streams.dedup import plain, seen, write
from twice.streams.dedup.rows import Counts, one_per_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.job import Job, StepResult
    from twice.model.streams import Stream
    from twice.store.protocol import StagedRows

# Stages rows, and says what came of them.
StageRows = Callable[["Job", "StagedRows", "DataFrame"], Counts]


@dataclass(frozen=True)
class Batch:
    """A batch of a query: its events, and who is given their counts before the commit.

    `again`: it is in the table already, and what it wrote is to be replaced.
    """

    stream: Stream
    mark: StreamMark
    events: DataFrame
    count: Callable[[Counts], None]
    again: bool = False

    @property
    def name(self) -> str:
        """What the rows of the batch are marked with."""
        return f"{self.mark.stream} {self.mark.query[:8]} {self.mark.batch}"


def take(job: Job, batch: Batch) -> StepResult:
    """Publish a batch, with retries for transient errors; a batch that is already in the table is skipped."""
    job = replace(job, batch=batch.name)
    dedup, stream = batch.stream.dedup, batch.stream
    if isinstance(dedup, Process):
        return _process(job, batch, dedup)
    if batch.again:
        stage_rows: StageRows = partial(_again, order=dedup.order)
    elif isinstance(dedup, Windowed):
        stage_rows = plain.stage_all
    else:
        stage_rows = partial(_new, order=dedup.order)
    # Read once: a second look at the source costs, and need not see the same. Read in any case: Spark's state of a
    # batch is written while its events are read, also of one that is in the table already.
    events = batch.events.persist()
    try:
        number = events.count()

        def counted(its_job: Job, stage: StagedRows, rows: DataFrame) -> Counts:
            done = stage_rows(its_job, stage, rows)
            return replace(done, rows_in=number)

        bound = {stream.parameter: events}
        return run_step(job, partial(_attempt, batch=batch, bound=bound, write=counted))
    finally:
        events.unpersist()


def take_as_is(job: Job, batch: Batch) -> StepResult:
    """Bring the events themselves into a table, each key once."""
    as_is = partial(_attempt, batch=batch, bound=None, write=partial(_new, order=None))
    return run_step(replace(job, batch=batch.name), as_is)


def _process(job: Job, batch: Batch, dedup: Process) -> StepResult:
    """Keep the keys of a batch, then process the events whose key no other batch saw first."""
    stream, keys_job = batch.stream, seen.seen_job(job, batch.stream)
    one = one_per_key(keys_job, batch.events, dedup.key, dedup.order)
    try:
        kept = None
        if not batch.again:  # its keys were kept before its rows
            keys = replace(batch, events=seen.keys_of(dedup, one), count=lambda _: None)
            keep = partial(write.stage_keys, count=one.number)
            kept = run_step(keys_job, partial(_attempt, batch=keys, bound=None, write=keep))
        new = seen.new_events(job, keys_job, dedup, one)
        # As many as had no key before; of a batch that is repeated they are kept already.
        number = kept.rows if kept is not None and kept.status != "fresh" else new.count()

        def write_events(its_job: Job, stage: StagedRows, rows: DataFrame) -> Counts:
            stage_rows = partial(_again, order=None) if batch.again else plain.stage_all
            return replace(stage_rows(its_job, stage, rows), rows_in=one.copies, duplicates=one.copies - number)

        return run_step(job, partial(_attempt, batch=batch, bound={stream.parameter: new}, write=write_events))
    finally:
        one.release()


def _new(job: Job, stage: StagedRows, rows: DataFrame, *, order: str | None) -> Counts:
    return write.stage_new(job, stage, rows, order)


def _again(job: Job, stage: StagedRows, rows: DataFrame, *, order: str | None) -> Counts:
    return write.stage_again(job, stage, rows, order)


def _attempt(job: Job, *, batch: Batch, bound: dict[str, DataFrame] | None, write: StageRows) -> Finding:
    """Try once to bring a batch into a table; `bound` is what the function is called with, None: the events as is."""
    keep_parts(job.ledger, job.step, job.code)
    with noted(job) as noted_job:
        finding = _publish(noted_job, batch, bound, write)
        fail_point("record.written")
        return finding


def _publish(job: Job, batch: Batch, bound: dict[str, DataFrame] | None, write: StageRows) -> Finding:
    """Claim the table, stage the batch, judge it, and commit it together with its number."""
    job.store.check(job.session, job.step.writes)
    with held(job) as holding:
        claim, heartbeat, row = holding.claim, holding.heartbeat, job.attempt
        recover(job, claim)
        if not batch.again and _is_in_table(job, batch.mark):
            return end_early(job, claim, row, "fresh", [], {})
        job.ledger.leases.bind(row, claim, base_version=None, inputs=())
        rows = _rows(job, batch, bound)
        job.store.prepare(job.session, job.step.writes, rows.schema)
        stage = job.store.open(job.session, job.target, claim.token)
        heartbeat.require()
        fail_point("claim.fenced")
        counts = write(job, stage, rows)
        fail_point("stage.written")
        gating.refuse_strays(job, stage)
        fail_point("gate.passed")
        batch.count(counts)
        changed = job.target.partitions if counts.rows_out or counts.changed else ()
        remember = {} if batch.again else {STREAM_MARK: batch.mark.text}
        notes = {"twice.replay" if batch.again else STREAM_MARK: batch.mark.text}
        status, version = commit_stage(job, claim, row, heartbeat, stage, changed, remember, more=notes)
        finding = Finding(status, [], counts.rows_out, version, counts.to_json())
        record(job, claim, row, finding)
    return finding


def _is_in_table(job: Job, mark: StreamMark) -> bool:
    found = StreamMark.read(job.store.remembered(job.session, job.step.writes, STREAM_MARK))
    return found is not None and found.covers(mark.query, mark.batch)


def _rows(job: Job, batch: Batch, bound: dict[str, DataFrame] | None) -> DataFrame:
    """Return the rows of a batch as the table takes them."""
    if bound is None:
        return batch.events.withColumn(WINDOW_COLUMN, F.lit(job.mark))
    return next(batches(job, bound))
