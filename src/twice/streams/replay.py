"""Batches read again by their recorded offsets, and published in the place of what they wrote before."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from twice.content.rows import column
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.spark.session import fresh
from twice.errors import StepFailed, StreamRefused, TwiceError, UsageError
from twice.model.scopes import Scope
from twice.model.streams import StreamMark, Windowed
from twice.model.tables import Table
from twice.streams import sources
from twice.streams.admission import has_own_offsets
from twice.streams.batch import Batch, take
from twice.streams.callbacks import batch_failed, quiet_callbacks
from twice.streams.checkpoints import Checkpoint, Offsets, folder_of
from twice.streams.context import Context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import StepResult
    from twice.engine.run import Runtime
    from twice.ledger import BatchInfo
    from twice.model.pipelines import Pipeline
    from twice.model.streams import Stream
    from twice.streams.dedup.rows import Counts


@dataclass(frozen=True)
class Replayed:
    """The outcome of one batch that was read again."""

    batch: int
    status: str
    rows_in: int
    rows_out: int
    version: str | None

    @property
    def text(self) -> str:
        """The batch in one line."""
        return f"batch {self.batch} {self.status}: {self.rows_in:,} in, {self.rows_out:,} out"

    def to_json(self) -> dict[str, object]:
        """Return the batch as JSON scalars."""
        return dict(self.__dict__)


def replay(
    runtime: Runtime,
    pipeline: Pipeline,
    stream: Stream,
    checkpoints: str,
    batches: Sequence[BatchInfo],
    *,
    command: str = "",
    report: Callable[[Replayed], None] = lambda _: None,
) -> list[Replayed]:
    """Read batches again and replace what they wrote, oldest first; the stream may run meanwhile."""
    if not batches:
        raise UsageError(f"no batch of the stream {stream.full_name} was recorded in that range")
    folder = folder_of(checkpoints, stream.full_name, runtime.spark.sparkContext.master or "")
    found = []
    with recorded_run(runtime.ledger, pipeline.name, Scope(None), command=command) as run:
        session = fresh(runtime.spark, pipeline.zone.key)
        context = Context(runtime, pipeline, stream, Checkpoint(session, folder), run, session)
        for info in sorted(batches, key=lambda each: (each.started_at, each.batch)):
            done = _replay(context, info)
            found.append(done)
            runtime.ledger.streams.batches.note(info, {}, replayed=True)
            report(done)
    return found


def _replay(context: Context, info: BatchInfo) -> Replayed:
    stream = context.stream
    seen: list[Counts] = []
    done: list[StepResult] = []

    def again(rows: DataFrame) -> None:
        _require_as_many(stream, info, rows.count())
        mark = StreamMark(stream.full_name, info.query, info.batch)
        batch = Batch(stream, mark, rows, seen.append, again=True)
        done.append(take(context.task(rows.sparkSession), batch))

    read_again(context, info, again)
    if not done:  # the batch had no rows at all
        return Replayed(info.batch, "unchanged", 0, 0, None)
    counts = seen[-1] if seen else None
    rows_in, rows_out = (counts.rows_in, done[0].rows) if counts else (0, 0)
    return Replayed(info.batch, done[0].status, rows_in, rows_out, done[0].version)


def _require_as_many(stream: Stream, info: BatchInfo, found: int) -> None:
    """Refuse a batch of which the source delivers less than it did: the rest of its rows would be removed."""
    expected = (info.rows_in or 0) - (info.late or 0)
    if found < expected:
        raise StreamRefused(
            f"batch {info.batch} of the stream {stream.full_name} had {expected} events, and its source delivers "
            f"{found} of them now",
            unchanged="the table is as it was",
            next_step="what the source has removed since cannot be read: replay other batches",
        )


def read_again(context: Context, info: BatchInfo, use: Callable[[DataFrame], None], *, late: bool = False) -> None:
    """Call a function with the events of a batch, without those that were too late then; or with those alone."""
    stream, before = context.stream, _before(context, info)
    watermark = Offsets.read(before).watermark if before else 0
    problem: list[BaseException] = []

    def on_batch(rows: DataFrame, number: int) -> None:
        if number != info.batch:
            return
        try:
            use(_by_age(rows, stream, watermark, late=late))
        except BaseException as error:  # noqa: BLE001 - it is raised again by the thread that waits for the query
            problem.append(error)
            raise batch_failed(number) from None

    quiet_callbacks()
    _require_files(context, info, before)
    with _copy(context, info, before) as folder:
        rows = sources.events(context.session, context.runtime.stores, stream)
        query: Any = (
            rows.writeStream.queryName(f"{stream.full_name}-replay-{info.batch}-{secrets.token_hex(3)}")
            .foreachBatch(on_batch)
            .option("checkpointLocation", folder)
            .trigger(once=True)  # the one batch that has offsets and no commit
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if problem and isinstance(problem[0], TwiceError):
                raise problem[0] from error
            first = next((line for line in str(error).splitlines() if line.strip()), "")
            raise StepFailed(
                f"batch {info.batch} of the stream {stream.full_name} cannot be read again: {first}",
                unchanged="the table is as it was",
                next_step="what the source has removed since cannot be read: replay later batches only",
            ) from error
        finally:
            if query.isActive:
                query.stop()


def _require_files(context: Context, info: BatchInfo, before: str) -> None:
    """Refuse a batch some of whose files are gone."""
    source = context.stream.reads
    if not isinstance(source, Table) or context.runtime.stores.source(source).abilities.offsets:
        return
    offsets = Offsets.read(info.offsets), Offsets.read(before) if before else None
    if gone := context.checkpoint.missing_files(*offsets):
        raise StreamRefused(
            f"batch {info.batch} of the stream {context.stream.full_name} cannot be read again: {len(gone)} of its "
            f"files are gone, such as {gone[0]}",
            unchanged="the table is as it was",
            next_step="put the files back, or replay other batches",
        )


def _by_age(rows: DataFrame, stream: Stream, watermark: int, *, late: bool) -> DataFrame:
    if not isinstance(stream.dedup, Windowed):
        return rows
    happened = column(str(stream.dedup.event_time))
    old = happened.cast("timestamp") <= F.timestamp_millis(F.lit(watermark)) if watermark else F.lit(False)
    return rows.where(old if late else ~F.coalesce(old, F.lit(False)))


def _before(context: Context, info: BatchInfo) -> str:
    """Return the offsets where a batch begins; empty for the first one of a query."""
    if info.batch == 0:
        return ""
    found = context.runtime.ledger.streams.batches.find(info.pipeline, info.stream, info.query, info.batch - 1)
    if found is None:
        raise StreamRefused(
            f"where batch {info.batch} of the stream {info.pipeline}.{info.stream} begins is no longer recorded",
            unchanged="the table is as it was",
            next_step="replay from a later batch",
        )
    return found.offsets


@contextmanager
def _copy(context: Context, info: BatchInfo, before: str) -> Iterator[str]:
    """Make a checkpoint in which one batch is still to be done."""
    if info.query != context.checkpoint.query and not has_own_offsets(context.runtime, context.stream):
        raise StreamRefused(
            f"batch {info.batch} is of query {info.query}, and what it read is known to that query's checkpoint alone",
            unchanged="the table is as it was",
            next_step=f"replay batches of query {context.checkpoint.query}, or put the other checkpoint back",
        )
    name = f"{context.checkpoint.path}.replay-{info.batch}-{secrets.token_hex(4)}"
    copy = Checkpoint(context.session, name)
    try:
        # Under an id of its own: Spark stops a query when another one with its id is started.
        copy.begin(str(uuid.uuid4()), (info.batch - 1, before) if before else None, (info.batch, info.offsets))
        copy.copy_sources(context.checkpoint)
        yield name
    finally:
        copy.remove()
