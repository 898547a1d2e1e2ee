"""One chunk: run it as its own run, and decide how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.backfills.sizing import MOST, adapted, cut
from twice.backfills.spans import neighbours
from twice.effects.paying import EffectResult, pay
from twice.engine.chunks.options import ChunkOptions, SpotCheck
from twice.engine.operations.recorded_run import end_run
from twice.engine.run import run_planned_step
from twice.errors import (
    GateFailed,
    KeyViolation,
    LateData,
    LeaseLost,
    LedgerError,
    MergeRefused,
    NotSeparable,
    OutOfScope,
    PermanentError,
    RetriesExhausted,
    SchemaRefused,
    ScopeHeld,
    StepFailed,
    TwiceError,
)
from twice.ledger import Chunk, NewChunk, was_split
from twice.model.patterns import Overwrite
from twice.model.scopes import Scope
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.backfills.planning import Planner
    from twice.engine.attempt.task import StepResult
    from twice.engine.plan import PlannedStep
    from twice.engine.run import Runtime
    from twice.model.steps import Step

# Errors that may come from a single partition: the chunk is halved until that partition is alone.
_OF_ONE = (
    StepFailed,
    OutOfScope,
    MergeRefused,
    RetriesExhausted,
    LateData,
    SchemaRefused,
    GateFailed,
    KeyViolation,
)
# With this many partitions failed alone and none done, the step itself is broken.
_BROKEN = 5
_HELD_WAIT, _HELD_TRIES = 5.0, 60
# After this many tries, the partition that another run holds is isolated, so that the rest need not wait.
_HELD_TOGETHER = 2
_LOST_TRIES = 3


@dataclass(frozen=True)
class Outcome:
    """How a chunk ended."""

    kind: str
    text: str = ""
    rows: int = 0
    seconds: float = 0.0
    refused: int = 0


@dataclass
class Worker:
    """Runs chunks; several threads share it."""

    runtime: Runtime
    planner: Planner
    command: str
    # Runs at work, by chunk: what a cancel cancels.
    runs: dict[int, str] = field(default_factory=dict)
    abandoned: Callable[[], bool] = lambda: False
    # The environment that is recorded with all runs of this process.
    environment: Mapping[str, object] = field(default_factory=dict)
    # By step: one spot check is valid for all chunks of this process.
    spot_checks: dict[int, SpotCheck] = field(default_factory=dict)
    # How long a chunk whose scope is held waits until it is tried again.
    pause: timedelta = timedelta(seconds=2)

    def run(self, chunk: Chunk, *, check: bool, skip_fresh: bool) -> Outcome:
        """Run one chunk to its end, successful or not."""
        ledger, pipeline, request = self.runtime.ledger, self.planner.pipeline, self.planner.request
        step = pipeline.find(chunk.step)
        one_by_one = self._is_one_by_one(chunk)
        if one_by_one and len(alone := self.alone(chunk)) > 1:
            # It was at work, or held, when another one was found to mix its partitions.
            ledger.backfills.chunks.split(chunk, alone)
            return Outcome("split", "one partition per job from here on")
        planned = self.planned(chunk)
        tags = {**request.tags, "backfill": chunk.backfill}
        run = ledger.runs.start(
            pipeline.name, chunk.scope, command=self.command, tags=tags, environment=self.environment
        )
        ledger.backfills.chunks.name_run(chunk, run)
        self.runs[chunk.id] = run
        try:
            self.runtime.stores.of(step.writes)
            result = run_planned_step(
                self.runtime,
                pipeline,
                planned,
                run,
                skip_fresh=skip_fresh,
                wait=_HELD_WAIT,
                chunk=ChunkOptions(
                    partial=isinstance(step.writes.write, Overwrite),
                    check_alone=_witness(planned) if chunk.spot_check else None,
                    spot_check=self.spot_checks.setdefault(chunk.step_index, SpotCheck()),
                    pool=request.pool,
                ),
                # The ledger may hold the contents that these partitions had when they were computed together.
                rebuild_after_wait=one_by_one,
                accept_late=request.accept_late,
                abandoned=self.abandoned,
            )
            effects = self._effects(planned, run) if result.status != "superseded" else []
        except TwiceError as error:
            return self._failed(chunk, step, run, error)
        except Exception as error:  # noqa: BLE001 - nothing above a thread catches it: the chunk failed
            surprise = PermanentError(f"an unexpected error occurred: {type(error).__name__}: {error}")
            return self._failed(chunk, step, run, surprise, of_one=True)
        finally:
            self.runs.pop(chunk.id, None)
        owed = [error.message for effect in effects for error in effect.errors]
        return self._done(chunk, run, result, check=check, owed=owed)

    def _effects(self, planned: PlannedStep, run: str) -> Sequence[EffectResult]:
        request = self.planner.request
        return pay(
            self.runtime,
            self.planner.pipeline,
            planned,
            run,
            mode="send" if request.effects else "normal",
            suppress="" if request.effects else "undeclared",
            abandoned=self.abandoned,
        )

    def planned(self, chunk: Chunk) -> PlannedStep:
        """Return the planned step of a chunk."""
        assert chunk.scope.window is not None  # noqa: S101 - a chunk has a window
        return self.planner.planned(self.planner.pipeline.find(chunk.step), [chunk.scope.window])

    def _done(self, chunk: Chunk, run: str, result: StepResult, *, check: bool, owed: Sequence[str] = ()) -> Outcome:
        ledger, units = self.runtime.ledger, self._units(chunk)
        first = next(iter(result.refused.values()), "")
        end_run(ledger, run, "failed" if result.refused or owed else "done", first or next(iter(owed), ""))
        spot_check = self.spot_checks.get(chunk.step_index)
        done = ledger.backfills.chunks.finish(
            chunk,
            "done",
            rows=result.rows,
            refused=result.refused,
            compared=chunk.spot_check and spot_check is not None and spot_check.passed,
            alone=self.alone(chunk),
        )
        if not done and len(units) > 1 and self._is_one_by_one(chunk):
            return Outcome("split", "one partition per job from here on: another process found that they differ alone")
        # A chunk that was compared takes longer: its duration says nothing about the next one.
        if check and not (chunk.spot_check and result.rows and len(units) > 1):
            self._adapt(chunk, result.seconds)
        text = f"{len(result.refused)} refused: {first}" if result.refused else result.status
        text += "".join(f"; effect {message}" for message in owed)
        return Outcome("done", text, result.rows, result.seconds, len(result.refused))

    def _failed(self, chunk: Chunk, step: Step, run: str, error: TwiceError, *, of_one: bool = False) -> Outcome:
        ledger, chunks = self.runtime.ledger, self.runtime.ledger.backfills.chunks
        held = isinstance(error, ScopeHeld)
        if self.abandoned():
            end_run(ledger, run, "interrupted", "the backfill was stopped")
            chunks.put_back(chunk)
            return Outcome("waiting", "abandoned")
        end_run(ledger, run, "held" if held else "failed", str(error))
        units = self._units(chunk)
        apart = held and chunk.tries >= _HELD_TOGETHER and len(units) > 1 and self._is_claimed_by_window(step)
        waits = (held and chunk.tries < _HELD_TRIES) or (isinstance(error, LeaseLost) and chunk.tries < _LOST_TRIES)
        if waits and not apart:
            chunks.put_back(chunk, wait=self.pause)
            return Outcome("waiting", error.message)
        if isinstance(error, NotSeparable) and len(units) > 1:
            why = f"one partition per job from here on: {error.message}"
            chunks.go_one_by_one(chunk, self.alone, why)
            return Outcome("split", why)
        if (of_one or apart or _may_be_of_one(error)) and len(units) > 1:
            half = len(units) // 2
            chunks.split(chunk, [self._chunk(step, part) for part in (units[:half], units[half:])])
            return Outcome("split", error.message)
        chunks.finish(chunk, "failed", error=str(error))
        if step.depends_on_past:
            chunks.give_up_waiting(chunk.backfill, chunk.step_index, "blocked", "an earlier partition was not built")
        elif self._is_broken(chunk):
            why = f"not tried: the first {_BROKEN} partitions all failed, the last with: {error.message}"
            chunks.give_up_waiting(chunk.backfill, chunk.step_index, "failed", why)
        return Outcome("failed", error.message)

    def _units(self, chunk: Chunk) -> list[Window]:
        assert chunk.scope.window is not None  # noqa: S101 - a chunk has a window
        pipeline = self.planner.pipeline
        return list(pipeline.grain.partitions(chunk.scope.window, pipeline.zone))

    def _chunk(self, step: Step, windows: Sequence[Window]) -> NewChunk:
        planned = self.planner.planned(step, windows)
        count = len(planned.target.partitions) if step.writes.partition else len(windows)
        return NewChunk(planned.scope, count)

    def _is_broken(self, chunk: Chunk) -> bool:
        ended = self.runtime.ledger.backfills.chunks.list(
            chunk.backfill, step_index=chunk.step_index, states=("done", "failed")
        )
        failed = [each for each in ended if each.state == "failed"]
        return len(failed) >= _BROKEN and len(failed) == len(ended)

    def _is_one_by_one(self, chunk: Chunk) -> bool:
        return bool(self.runtime.ledger.backfills.chunks.step_note(chunk.backfill, chunk.step_index).get("one_by_one"))

    def alone(self, chunk: Chunk) -> list[NewChunk]:
        """Cut a chunk into one job for each unit."""
        step = self.planner.pipeline.find(chunk.step)
        return [self._chunk(step, [unit]) for unit in self._units(chunk)]

    def _is_claimed_by_window(self, step: Step) -> bool:
        """Return whether a part of a chunk may be free while another is held."""
        return step.writes.partition is not None and self.runtime.stores.of(step.writes).abilities.side_by_side

    def _adapt(self, chunk: Chunk, seconds: float) -> None:
        """Cut the waiting chunks again if they turn out to be much too short or too long."""
        request, chunks = self.planner.request, self.runtime.ledger.backfills.chunks
        better = min(MOST, adapted(chunk.partitions, seconds))
        if request.chunk is not None or better == chunk.partitions:
            return
        note = chunks.step_note(chunk.backfill, chunk.step_index)
        if note.get("one_by_one") or was_split(note, chunk.scope.window):
            return
        step = self.planner.pipeline.find(chunk.step)
        found = chunks.list(chunk.backfill, step_index=chunk.step_index, states=("waiting",))
        waiting = [each for each in found if not was_split(note, each.scope.window)]
        each = max(1, chunk.partitions // len(self._units(chunk)))
        size = max(1, better // each)
        windows = sorted(unit for old in waiting for unit in self._units(old))
        new = [piece for group in neighbours(windows) for piece in cut(group, size, request.parallel)]
        if len(new) > len(waiting) * 3 // 2 or len(new) < len(waiting):
            if request.order == "backward":
                new.reverse()
            chunks.recut(waiting, [self._chunk(step, piece) for piece in new])


def _may_be_of_one(error: TwiceError) -> bool:
    """Return whether a smaller chunk could succeed; a ledger that cannot be reached fails every chunk."""
    return isinstance(error, _OF_ONE) and not isinstance(error.__cause__, LedgerError)


def _witness(planned: PlannedStep) -> Scope:
    """Choose the partition that is computed alone: one from the middle, with neighbours on both sides."""
    return planned.target.partitions[len(planned.target.partitions) // 2]
