"""What one process does: takes chunks as they become free, follows the state in the ledger, stops safely."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from twice.backfills.events import BackfillEvent, Meter, Report
from twice.backfills.spans import union
from twice.backfills.summary import span_of
from twice.backfills.work import Outcome, Worker
from twice.engine.spark.environment import environment
from twice.engine.spark.interrupts import apart, plain_interrupts
from twice.engine.spark.job_group import cancel_run
from twice.errors import LedgerBusy, LedgerError, TwiceError
from twice.ledger import Chunk, NewChunk
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.backfills.planning import Plan, Planner, StepPlan
    from twice.engine.run import Runtime
    from twice.model.steps import Step

# How often the ledger is polled for a pause, a cancel or another parallelism.
_POLL = 1.0
# How long abandoned chunks get to leave nothing behind; what they leave, the next claim recovers.
_PATIENCE = 60.0


class Executor:
    """Works on one backfill until it ends, is cancelled or interrupted."""

    def __init__(
        self,
        runtime: Runtime,
        planner: Planner,
        backfill: str,
        report: Report,
        *,
        plan: Plan | None = None,
        command: str,
    ) -> None:
        self._runtime, self._planner = runtime, planner
        self._backfills, self._chunks = runtime.ledger.backfills, runtime.ledger.backfills.chunks
        self._id, self._report_note = backfill, report
        self._running: set[int] = set()
        self._threads = 0
        self._queue: SimpleQueue[tuple[Chunk, Mapping[str, Any]] | None] = SimpleQueue()
        # Chunks that a ledger out of reach could not record.
        self._owed: list[Chunk] = []
        self._changed = threading.Event()
        self._over = threading.Event()
        self._abandoning = False
        made_with = environment(runtime, planner.pipeline)
        self._worker = Worker(runtime, planner, command, abandoned=lambda: self._abandoning, environment=made_with)
        self._notes: dict[int, Mapping[str, Any]] = {}
        self._meter = Meter({step.step.name: step.partitions for step in plan.steps} if plan else None)
        self._plan = plan
        self._paused = False

    def work(self) -> str:
        """Work until there is nothing left to do here; return the status of the backfill."""
        heart = threading.Thread(target=self._beat, name=f"twice-backfill-{self._id}", daemon=True)
        heart.start()
        interrupted = False
        try:
            with plain_interrupts():
                try:
                    self._look_ahead()
                    self._loop()
                except KeyboardInterrupt:
                    interrupted = True
                    self._stop()
        except BaseException:
            self._abandon()
            raise
        finally:
            self._over.set()
            for _ in range(self._threads):
                self._queue.put(None)
            heart.join(timeout=5)
            self._backfills.leave(self._id, interrupted=True)
        status = self._backfills.get(self._id).status
        self._emit("finished", text="interrupted" if interrupted else status)
        return "interrupted" if interrupted else status

    def _look_ahead(self) -> None:
        """Count what the remaining steps have to build, where no plan has counted it."""
        with contextlib.suppress(TwiceError):  # for display only: an error is raised when the step's turn comes
            if self._plan is None:
                step_index = self._backfills.state(self._id)[2]
                self._meter.expect(self._planner.expected(self._planner.steps[step_index:]))

    def _loop(self) -> None:
        going = True
        while going:
            try:
                going = self._turn()
            except LedgerBusy:
                self._changed.wait(_POLL)

    def _turn(self) -> bool:
        """Do what can be done now, then wait for a change; return False at the end."""
        while self._owed:
            self._chunks.put_back(self._owed[0], wait=timedelta(seconds=1))
            self._owed.pop(0)
        status, _parallel, step_index = self._backfills.state(self._id)
        if status not in ("running", "paused"):
            self._abandon()
            if status == "cancelled":
                self._chunks.give_up_waiting(self._id, step_index, "cancelled", "")
            return False
        self._show_pause(status)
        if status == "running" and step_index:
            self._fill(step_index)
        if not self._running and self._is_over(step_index):
            if step_index == len(self._planner.steps):
                self._finish()
                return False
            self._lay_out(step_index)
            return True
        self._changed.wait(_POLL)
        self._changed.clear()
        self._emit("tick")
        return True

    def _fill(self, step_index: int) -> None:
        """Start chunks while some are left and the ledger allows it."""
        note = self._note(step_index)
        step = self._planner.steps[step_index - 1]
        check, in_order = note["check"], note["in_order"]
        while chunk := self._chunks.take(self._id, check=check, in_order=in_order, limit=step.parallel):
            self._emit("chunk started", chunk=chunk)
            self._running.add(chunk.id)
            if len(self._running) > self._threads:
                # Threads are reused: each has its own connection to the JVM.
                self._threads += 1
                threading.Thread(target=self._serve, name=f"twice-chunks-{self._threads}", daemon=True).start()
            self._queue.put((chunk, note))

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            self._run_chunk(*item)

    def _run_chunk(self, chunk: Chunk, note: Mapping[str, Any]) -> None:
        outcome = Outcome("failed")
        try:
            outcome = self._worker.run(chunk, check=note["check"], skip_fresh=note["skip_fresh"])
        except LedgerError as error:  # nothing can be recorded now: the chunk is put back once it can
            outcome = Outcome("waiting", error.message)
            self._owed.append(chunk)
        finally:
            self._running.discard(chunk.id)
            data = {"rows": outcome.rows, "seconds": outcome.seconds, "refused": outcome.refused}
            self._emit(outcome.kind, chunk=chunk, text=outcome.text, data=data)
            self._changed.set()

    def _is_over(self, step_index: int) -> bool:
        return step_index == 0 or not self._chunks.list(self._id, step_index=step_index, states=("waiting", "running"))

    def _lay_out(self, step_index: int) -> None:
        """Judge the next step as things stand now, and cut it into chunks."""
        step = self._planner.steps[step_index]
        # The first step was judged a moment ago.
        planned = self._plan.steps[0] if self._plan and not step_index else self._judged(step, step_index)
        wanted = [NewChunk(each.scope, _partitions(each.scope.window, planned)) for each in planned.chunks]
        wanted += [
            NewChunk(self._planner.planned(step, [unit.window]).scope, unit.partitions, why)
            for unit, why in planned.blocked
        ]
        facts = {name: value for name, value in planned.to_json().items() if name != "chunks"}
        self._meter.expect({step.name: planned.partitions})
        # Another process that watches the backfill sees only what is recorded here.
        to_come = self._meter.to_come([later.name for later in self._planner.steps[step_index + 1 :]])
        note = {**facts, **planned.batching.to_json(), "chunks": len(planned.chunks), "to_come": to_come}
        if self._chunks.lay_out(self._id, step_index + 1, step.name, wanted, note):
            text = f"{planned.partitions} partitions in {len(planned.chunks)} chunks; {planned.batching.why}"
            self._emit("laid out", step=step.name, text=text if planned.chunks else "nothing to do", data=note)

    def _judged(self, step: Step, step_index: int) -> StepPlan:
        # A step whose code changed meanwhile is cut again; the partitions that were built stay.
        made = (
            chunk.scope.window for chunk in self._chunks.list(self._id, step_index=step_index + 1, states=("done",))
        )
        return self._planner.turn(step, self.unmade(), union(window for window in made if window))

    def _note(self, step_index: int) -> Mapping[str, Any]:
        """Return how a step was cut, whichever process did it."""
        if step_index not in self._notes:
            self._notes[step_index] = self._backfills.get(self._id).plan[step_index - 1]
        return self._notes[step_index]

    def unmade(self) -> dict[str, list[Window]]:
        """Return what the steps so far could not build."""
        found: dict[str, list[Window]] = {}
        for chunk in self._chunks.list(self._id):
            assert chunk.scope.window is not None  # noqa: S101 - a chunk has a window
            if chunk.state in ("failed", "blocked", "cancelled"):
                found.setdefault(chunk.step, []).append(chunk.scope.window)
            elif chunk.refused:
                target = self._worker.planned(chunk).target
                bad = [part.window for part in target.partitions if target.name(part) in chunk.refused]
                found.setdefault(chunk.step, []).extend(window for window in bad if window)
        return {step: union(windows) for step, windows in found.items()}

    def _finish(self) -> None:
        tallies = self._chunks.tallies(self._id)
        bad = sum(tally.failed + tally.blocked for tally in tallies)
        error = f"{bad} partitions were not built" if bad else ""
        self._backfills.finish(self._id, "partly" if bad else "done", error)

    def _stop(self) -> None:
        """Let the chunks at work end; a second Ctrl-C abandons them."""
        self._emit("stopping", text=f"{len(self._running)} chunks end first; Ctrl-C again abandons them")
        try:
            while self._running:
                self._changed.wait(_POLL)
                self._changed.clear()
                if self._backfills.state(self._id)[0] == "cancelled":
                    self._abandon()
        except KeyboardInterrupt:
            self._abandon()

    def _abandon(self) -> None:
        """Cancel the Spark jobs of all chunks at work, and wait until they have cleaned up."""
        self._abandoning = True
        end = time.monotonic() + _PATIENCE
        while self._running and time.monotonic() < end:
            apart(*(partial(cancel_run, self._runtime.spark, run) for run in list(self._worker.runs.values())))
            self._changed.wait(0.2)
            self._changed.clear()

    def _beat(self) -> None:
        ttl = self._runtime.lease
        while not self._over.wait(ttl.total_seconds() / 4):
            with contextlib.suppress(LedgerError):  # the next beat may get through
                self._backfills.beat(self._id, ttl)

    def _show_pause(self, status: str) -> None:
        if (status == "paused") != self._paused:
            self._paused = status == "paused"
            self._emit("paused" if self._paused else "continuing")

    def _emit(
        self,
        kind: Any,
        *,
        chunk: Chunk | None = None,
        step: str = "",
        text: str = "",
        data: Mapping[str, object] | None = None,
    ) -> None:
        span = ""
        if chunk is not None:
            step, span = chunk.step, span_of(self._planner.pipeline, chunk.scope)
        try:
            progress = self._meter.read(self._chunks.tallies(self._id))
        except LedgerError:  # progress is for display only: a line may be missing
            progress = None
        self._report_note(BackfillEvent(kind, self._id, step, span, text, progress, data or {}))


def _partitions(window: Window | None, planned: StepPlan) -> int:
    """Count what a chunk makes; a table without partitions counts by units."""
    assert window is not None  # noqa: S101 - a chunk has a window
    return sum(unit.partitions for unit in planned.needed if window.covers(unit.window))
