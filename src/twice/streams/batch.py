"""One micro-batch is one publish, by the same verbs as a run: claim, recover, stage, gate, publish, record.

The number of the batch is committed together with its rows, so that a batch that Spark delivers again is a no-op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.carrying import carried
from twice.engine.attempt import gating
from twice.engine.attempt.compute import batches
from twice.engine.attempt.fingerprint import keep_parts
from twice.engine.attempt.holding import hold_lease
from twice.engine.attempt.outputs import Finding
from twice.engine.attempt.recorded_attempt import recorded_attempt
from twice.engine.attempt.skipping import end_early
from twice.engine.attempt.verbs import commit_staged, record, recover
from twice.engine.run import run_step
from twice.failpoints import fail_point
from twice.model.framework import WINDOW_COLUMN
from twice.model.streams import STREAM_MARK, Process, StreamMark, Windowed
from twice.streams.dedup import plain, seen, write
from twice.streams.dedup.rows import Counts, one_per_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import StepResult, Task
    from twice.model.streams import Stream
    from twice.store.protocol import StagedRows

# Stages rows, and returns their counts.
StageRows = Callable[["Task", "StagedRows", "DataFrame"], Counts]


@dataclass(frozen=True)
class Batch:
    """A batch of a query: its events, and the function that gets their counts before the commit.

    `again`: it is already in the table, and what it wrote is to be replaced.
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


def take(task: Task, batch: Batch) -> StepResult:
    """Publish a batch, with retries for transient errors; a batch that is already in the table is skipped."""
    task = replace(task, batch=batch.name)
    dedup, events = batch.stream.dedup, batch.events
    if isinstance(dedup, Process):
        return _process(task, batch, dedup)
    remembered = isinstance(dedup, Windowed)
    if remembered:  # a second read would run Spark's state again
        events.persist()

    def stage_rows(its_task: Task, staged: StagedRows, rows: DataFrame) -> Counts:
        # Where the function makes one row of each event, they are counted as its rows are.
        number = None if carried(rows, events) is not None else events.persist().count()
        if batch.again:
            counts = write.stage_again(its_task, staged, rows, dedup.order)
        elif remembered:
            unique = plain.is_unique(its_task.step.writes, events, dedup.key, rows)
            counts = plain.stage_all(its_task, staged, rows, unique=unique)
        else:
            counts = write.stage_new(its_task, staged, rows, dedup.order)
        return counts if number is None else replace(counts, rows_in=number)

    try:
        done = run_step(task, partial(_attempt, batch=batch, bound={batch.stream.parameter: events}, write=stage_rows))
        if remembered and done.status == "fresh":
            events.count()  # Spark writes its state while they are read, also of a batch that is already in the table
        return done
    finally:
        events.unpersist()


def take_as_is(task: Task, batch: Batch) -> StepResult:
    """Bring the events themselves into a table, each key once."""
    as_is = partial(_attempt, batch=batch, bound=None, write=_as_is)
    return run_step(replace(task, batch=batch.name), as_is)


def _process(task: Task, batch: Batch, dedup: Process) -> StepResult:
    """Keep the keys of a batch, then process the events whose key no other batch saw first."""
    stream, keys_task = batch.stream, seen.seen_task(task, batch.stream)
    one = one_per_key(keys_task, batch.events, dedup.key, dedup.order)
    keeping = seen.Keeping(one, dedup.key)
    try:
        kept = None
        if not batch.again:  # its keys were kept before its rows
            keys = replace(batch, events=seen.keys_of(dedup, one), count=lambda _: None)
            kept = run_step(keys_task, partial(_attempt, batch=keys, bound=None, write=keeping.stage))
        if kept is not None and kept.status != "fresh":
            number, new = kept.rows, keeping.new_events(kept.rows)
        else:  # its keys are in the table of keys already: as many events are its own as no other batch saw
            new = seen.first_seen(keys_task, dedup, one)
            number = new.count()

        def stage_rows(its_task: Task, staged: StagedRows, rows: DataFrame) -> Counts:
            if batch.again:
                counts = write.stage_again(its_task, staged, rows, None)
            else:
                unique = plain.is_unique(its_task.step.writes, new, dedup.key, rows)
                counts = plain.stage_all(its_task, staged, rows, unique=unique)
            return replace(counts, rows_in=one.copies, duplicates=one.copies - number)

        return run_step(task, partial(_attempt, batch=batch, bound={stream.parameter: new}, write=stage_rows))
    finally:
        keeping.release()
        one.release()


def _as_is(task: Task, staged: StagedRows, rows: DataFrame) -> Counts:
    return write.stage_new(task, staged, rows, None)


def _attempt(task: Task, *, batch: Batch, bound: dict[str, DataFrame] | None, write: StageRows) -> Finding:
    """Try once to bring a batch into a table; `bound` is what the function is called with, None: the events as is."""
    keep_parts(task.ledger, task.step, task.code)
    with recorded_attempt(task) as recorded:
        finding = _publish(recorded, batch, bound, write)
        fail_point("record.written")
        return finding


def _publish(task: Task, batch: Batch, bound: dict[str, DataFrame] | None, write: StageRows) -> Finding:
    """Claim the table, stage the batch, judge it, and commit it together with its number."""
    task.store.check(task.session, task.step.writes)
    with hold_lease(task) as holding:
        claim, heartbeat = holding.claim, holding.heartbeat
        recover(task, claim)
        if not batch.again and _is_in_table(task, batch.mark):
            return end_early(task, claim, "fresh", [], {})
        task.ledger.leases.bind(task.attempt_id, claim, base_version=None, inputs=())
        rows = _rows(task, batch, bound)
        task.store.prepare(task.session, task.step.writes, rows.schema)
        staged = task.store.open(task.session, task.target, claim.token)
        heartbeat.require()
        fail_point("claim.fenced")
        counts = write(task, staged, rows)
        fail_point("stage.written")
        gating.refuse_strays(task, staged)
        fail_point("gate.passed")
        batch.count(counts)
        changed = task.target.partitions if counts.rows_out or counts.changed else ()
        remember = {} if batch.again else {STREAM_MARK: batch.mark.text}
        notes = {"twice.replay" if batch.again else STREAM_MARK: batch.mark.text}
        status, version = commit_staged(task, claim, staged, changed, remember, more=notes)
        finding = Finding(status, [], counts.rows_out, version, counts.to_json())
        record(task, claim, finding)
    return finding


def _is_in_table(task: Task, mark: StreamMark) -> bool:
    found = StreamMark.read(task.store.remembered(task.session, task.step.writes, STREAM_MARK))
    return found is not None and found.covers(mark.query, mark.batch)


def _rows(task: Task, batch: Batch, bound: dict[str, DataFrame] | None) -> DataFrame:
    """Return the rows of a batch as the table takes them."""
    if bound is None:
        return batch.events.withColumn(WINDOW_COLUMN, F.lit(task.mark))
    return next(batches(task, bound))
