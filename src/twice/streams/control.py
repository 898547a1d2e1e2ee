"""A stream as it runs: one process at a time, one publish per batch, stopped between two batches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from twice.engine.attempt.claiming import replace_dead_holders
from twice.engine.attempt.heartbeat import Heartbeat
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.spark.session import fresh
from twice.errors import Interrupted, LeaseLost, ScopeHeld, StepFailed, StoreRefused, StreamRefused, TwiceError
from twice.failpoints import fail_point
from twice.model.scopes import Scope
from twice.model.streams import StreamMark, Windowed
from twice.model.tables import Table
from twice.streams import late, sources
from twice.streams.admission import Admission
from twice.streams.batch import Batch, take
from twice.streams.callbacks import batch_failed, quiet_callbacks
from twice.streams.checkpoints import Checkpoint, Offsets, folder_of
from twice.streams.context import Context
from twice.streams.progress import Report, StreamResult, progress_of, state_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from twice.engine.run import Runtime
    from twice.ledger import BatchInfo, StreamInfo
    from twice.model.pipelines import Pipeline
    from twice.model.streams import Stream
    from twice.streams.dedup.rows import Counts

_POLL = 0.2
_ASK = 2.0
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass
class Request:
    """The request of a run of a stream."""

    available_now: bool = False
    resume: bool = False
    command: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    # Set by the caller, such as on Ctrl-C: the stream ends after its batch.
    stop: threading.Event = field(default_factory=threading.Event)
    report: Report = lambda _: None


def run_stream(
    runtime: Runtime, pipeline: Pipeline, stream: Stream, checkpoints: str, request: Request
) -> StreamResult:
    """Run a stream until it is stopped, or with `available_now` until everything that is there now has been read."""
    runtime.stores.of(stream.writes)  # a pattern that the store cannot do is refused before anything is read
    master = runtime.spark.sparkContext.master or ""
    folder = folder_of(checkpoints, stream.full_name, master)
    with (
        recorded_run(runtime.ledger, pipeline.name, Scope(None), command=request.command, tags=request.tags) as run,
        alone(runtime, stream, run) as lost,
    ):
        session = _session(runtime, pipeline, stream)
        checkpoint = Checkpoint(session, folder)
        source = sources.identity(session, stream)
        Admission(runtime, session, stream, checkpoint, source).admit(resume=request.resume, aside=f"before-{run}")
        context = Context(runtime, pipeline, stream, checkpoint, run, session, source)
        late.complete(context)
        return Running(context).until_it_ends(request, lost)


@contextmanager
def alone(runtime: Runtime, stream: Stream, run: str) -> Iterator[threading.Event]:
    """Let one process at a time run a stream; the event is set when another one has taken over."""
    name, ledger, lost = f"stream {stream.full_name}", runtime.ledger, threading.Event()
    try:
        replace_dead_holders(ledger, name, Scope(None), run)
        claim = ledger.leases.claim(name, [Scope(None)], ttl=runtime.lease, run=run)
    except ScopeHeld as held:
        raise ScopeHeld(
            f"the stream {stream.full_name} is already running: {held.message}",
            unchanged="nothing was read",
            next_step=f"twice stream status {stream.pipeline}, or twice stream stop {stream.pipeline} {stream.name}",
        ) from None
    for abandoned in claim.abandoned:  # it staged nothing: nothing can have landed
        ledger.leases.settle(abandoned, landed=False, version=None)
    with Heartbeat(ledger, claim, runtime.lease, on_lost=lost.set):
        try:
            yield lost
        finally:
            with contextlib.suppress(TwiceError):
                ledger.leases.release(claim)


def _session(runtime: Runtime, pipeline: Pipeline, stream: Stream) -> SparkSession:
    session = fresh(runtime.spark, pipeline.zone.key)
    if isinstance(stream.dedup, Windowed):
        session.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
        # With each batch the keys that it adds are written, not all of them; an older checkpoint continues as well.
        session.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    return session


class Running:
    """A query and the batches that it delivers."""

    def __init__(self, context: Context) -> None:
        self._context, self.stream = context, context.stream
        self._streams = context.runtime.ledger.streams
        self.result = StreamResult(context.run, self.stream.full_name, self.stream.writes.name)
        self._info: StreamInfo | None = None
        self._ready = threading.Event()
        self._turn = threading.Condition()
        self._busy = self._stopping = False
        self._error: BaseException | None = None
        self._unreported: dict[int, tuple[BatchInfo, str, Counts | None]] = {}
        self._reported = -1

    def until_it_ends(self, request: Request, lost: threading.Event) -> StreamResult:
        """Start the query; end it between two batches on request."""
        quiet_callbacks()
        query = self._start(request)
        try:
            self._begin(str(query.id))
            self._watch(query, request, lost)
        except StreamingQueryException as error:
            raise self._explained(str(error)) from error
        finally:
            # A batch that waits to begin must not keep the query from ending.
            self._stopping = True
            self._ready.set()
            if query.isActive:
                query.stop()
        if isinstance(self._error, TwiceError) and not isinstance(self._error, Interrupted):
            raise self._error  # the last batch failed while the stream was being stopped
        self._report(query, request.report)
        if request.stop.is_set():
            raise Interrupted(
                f"the stream {self.stream.full_name} was stopped after batch {self._reported}",
                unchanged="every finished batch is in the table; the next run starts after it",
                next_step=f"twice stream run {self.stream.pipeline} {self.stream.name}",
            )
        self.result.status = "done" if request.available_now else "stopped"
        return self.result

    def _watch(self, query: StreamingQuery, request: Request, lost: threading.Event) -> None:
        """Report batches until the query ends; end it between two batches on request."""
        asked = 0.0
        while not query.awaitTermination(_POLL):  # type: ignore[arg-type]
            self._report(query, request.report)
            asked += _POLL
            if lost.is_set():
                raise LeaseLost(
                    f"the stream {self.stream.full_name} was taken over by another process",
                    unchanged="nothing was published by this process since",
                    next_step="twice stream status shows which process runs it",
                )
            stop = request.stop.is_set()
            if not stop and asked >= _ASK:
                asked, stop = 0.0, self._asked_to_stop()
            if stop:
                self._end_between_batches(query)
                return

    def _start(self, request: Request) -> StreamingQuery:
        rows = sources.events(self._context.session, self._context.runtime.stores, self.stream)
        if isinstance(self.stream.dedup, Windowed):
            rows = sources.windowed(rows, self.stream, self.stream.dedup)
        writer = rows.writeStream.queryName(f"{self.stream.full_name}-{self._context.run}").foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", self._context.checkpoint.path)
        if request.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.stream.every is not None:
            every = self.stream.every
            writer = writer.trigger(processingTime=f"{every.days * 86_400 + every.exact.total_seconds()} seconds")
        return writer.start()

    def _begin(self, query: str) -> None:
        stream = self.stream
        known = self._streams.find(stream.pipeline, stream.name)
        self.result.query = query
        self._streams.start(
            {
                "pipeline": stream.pipeline,
                "stream": stream.name,
                "table_name": stream.writes.name,
                "source": sources.kept(known.source, self._context.source) if known else self._context.source,
                "source_table": stream.reads.name if isinstance(stream.reads, Table) else "",
                "query": query,
                "checkpoint": self._context.checkpoint.path,
                "run": self._context.run,
            }
        )
        self._info = self._streams.find(stream.pipeline, stream.name)
        self._ready.set()

    def _on_batch(self, rows: DataFrame, number: int) -> None:
        """Take one batch; called by Spark on a thread of its own."""
        self._ready.wait()
        with self._turn:
            if self._stopping:
                raise batch_failed(number)
            self._busy = True
        try:
            self._take(rows, number)
        except BaseException as error:  # noqa: BLE001 - it is raised again by the thread that waits for the query
            self._error = error
            raise batch_failed(number) from None
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def _take(self, rows: DataFrame, number: int) -> None:
        assert self._info is not None  # noqa: S101 - set before any batch
        offsets = self._context.checkpoint.offsets(number)
        info = self._streams.batches.start(self._info, number, offsets.text)
        if info.ended_at is not None and Offsets.read(info.offsets).sources != offsets.sources:
            raise StreamRefused(
                f"batch {number} of the stream {self.stream.full_name} was published with other offsets: the "
                f"checkpoint {self._context.checkpoint.path} is an older copy, and what it reads now would be left out",
                unchanged="the table is as it was",
                next_step=f"twice stream run {self.stream.pipeline} {self.stream.name} --resume-from-table",
            )
        seen: list[Counts] = []

        def count(counts: Counts) -> None:
            seen[:] = [counts]
            self._streams.batches.note(info, counts.to_json())

        mark = StreamMark(self.stream.full_name, self._info.query, number)
        done = take(self._context.task(rows.sparkSession), Batch(self.stream, mark, rows, count))
        self._streams.batches.note(info, {"version": done.version} if done.version else {}, ended=True)
        fail_point("stream.noted")
        self._unreported[number] = (info, done.status, seen[0] if seen else None)

    def _report(self, query: StreamingQuery, report: Report) -> None:
        """Report the batches that ended since the last poll, with Spark's figures."""
        for reported in query.recentProgress:
            number = int(reported["batchId"])
            if number <= self._reported or number not in self._unreported:
                continue
            info, status, counts = self._unreported.pop(number)
            self._reported = number
            progress = progress_of(dict(reported), number, status, counts)
            more: dict[str, object] = {"late": progress.late}
            if isinstance(self.stream.dedup, Windowed):
                more |= {
                    "rows_in": progress.rows_in,
                    "duplicates": progress.duplicates,
                    "state_rows": state_rows(dict(reported)),
                }
            if progress.late:
                late.land(self._context, info)
            self._streams.batches.note(info, more)
            self.result.batches += 1
            for name in ("rows_in", "rows_out", "duplicates", "late"):
                setattr(self.result, name, getattr(self.result, name) + getattr(progress, name))
            report(progress)

    def _end_between_batches(self, query: StreamingQuery) -> None:
        self._context.stopping.set()
        with self._turn:
            while self._busy and query.isActive:
                self._turn.wait(_POLL)
            self._stopping = True
        query.stop()

    def _asked_to_stop(self) -> bool:
        found = self._streams.find(self.stream.pipeline, self.stream.name)
        return found is not None and found.stop

    def _explained(self, text: str) -> BaseException:
        """Return what stopped the query, as one of our errors where it is known."""
        if self._error is not None:
            return self._error
        first = next((line for line in text.splitlines() if line.strip()), "it ended without a reason")
        unchanged = "every finished batch is in the table; the next run reads the failed one again"
        if "overwrite snapshot" in text or "DELTA_SOURCE_" in text:
            return StoreRefused(
                f"stream {self.stream.name}: rows of {self.stream.source_text} were replaced, not added: {first}",
                unchanged=unchanged,
                next_step="rebuild this stream's table: write a new one; or leave the change out of it: options="
                '{"streaming-skip-overwrite-snapshots": "true"} (Iceberg) or {"skipChangeCommits": "true"} (Delta)',
            )
        return StepFailed(f"stream {self.stream.name}: {first}", unchanged=unchanged)
