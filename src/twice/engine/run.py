"""A run: the steps of a plan, one after the other, each retried after transient errors."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

import stamina

from twice.engine.attempt.fingerprint import fingerprint, keep_parts
from twice.engine.attempt.recorded_attempt import recorded_attempt
from twice.engine.attempt.retries import is_transient, wait_hint
from twice.engine.attempt.task import StepResult, Task
from twice.engine.attempt.verbs import attempt
from twice.engine.events import Event, Listener, State, ignore
from twice.engine.notebooks import run_html, run_line
from twice.engine.operations.recorded_run import end_failed_run, end_run
from twice.engine.spark.environment import environment
from twice.engine.spark.interrupts import plain_interrupts
from twice.engine.spark.session import fresh
from twice.errors import Interrupted, RetriesExhausted, ScopeHeld, TransientError, TwiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.attempt.accepted_gates import AcceptedGates
    from twice.engine.attempt.outputs import Finding
    from twice.engine.chunks.options import ChunkOptions
    from twice.engine.plan import PlannedStep
    from twice.engine.stores import Stores
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline


@dataclass(frozen=True)
class Runtime:
    """What every run of a process shares."""

    spark: SparkSession
    stores: Stores
    ledger: Ledger
    lease: timedelta = timedelta(seconds=60)
    listener: Listener = ignore
    # Sends the effects of a step that has ended; what it returns is part of the run's result.
    after_step: AfterStep | None = None


class Effected(Protocol):
    """What was done about one effect of one scope, and the errors that prevent it."""

    effect: str
    scope: str

    @property
    def states(self) -> Mapping[str, int]: ...

    @property
    def errors(self) -> Sequence[TwiceError]: ...

    @property
    def text(self) -> str: ...

    def to_json(self) -> dict[str, object]: ...


AfterStep = Callable[["Runtime", "Pipeline", "PlannedStep", str], "Sequence[Effected]"]


@dataclass(repr=False)
class RunResult:
    """How a run ended, step by step."""

    run: str
    pipeline: str
    scope: str
    status: str = "running"
    steps: list[StepResult] = field(default_factory=list)
    effects: list[Effected] = field(default_factory=list)
    error: TwiceError | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return self.error.exit_code if self.error else 0

    def __repr__(self) -> str:
        return run_line(self)

    def _repr_html_(self) -> str:
        return run_html(self)

    def raise_owed(self) -> None:
        """Raise the first error that prevents an effect."""
        for error in (error for effect in self.effects for error in effect.errors):
            raise error

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return {
            "run": self.run,
            "pipeline": self.pipeline,
            "scope": self.scope,
            "status": self.status,
            "exit_code": self.exit_code,
            "error": str(self.error) if self.error else "",
            "steps": [step.to_json() for step in self.steps],
            "effects": [effect.to_json() for effect in self.effects],
        }


def execute(
    runtime: Runtime,
    pipeline: Pipeline,
    planned_steps: Sequence[PlannedStep],
    *,
    skip_fresh: bool = False,
    wait: float = 0.0,
    accept_late: bool = False,
    accept: AcceptedGates | None = None,
    command: str = "",
    tags: Mapping[str, str] | None = None,
) -> RunResult:
    """Execute a plan; the first step that fails ends the run, and what it read stays as it is.

    `accept` names gates that may fail in this run, with the reason.
    """
    scope = planned_steps[0].scope
    made_with = environment(runtime, pipeline)
    run = runtime.ledger.runs.start(pipeline.name, scope, command=command, tags=tags, environment=made_with)
    result = RunResult(run, pipeline.name, str(scope))
    one_step = partial(run_planned_step, skip_fresh=skip_fresh, wait=wait, accept_late=accept_late)
    _report(runtime, result, "started")
    try:
        with plain_interrupts():
            _run_steps(runtime, pipeline, planned_steps, result, one_step, accept or {})
            # An effect that fails stops no step: what it is about is published.
            result.raise_owed()
        result.status = "done"
    except KeyboardInterrupt:
        result.status = "interrupted"
        result.error = Interrupted(
            f"run {run} of {pipeline.name} was interrupted",
            unchanged="finished steps stay published; the interrupted step published nothing",
            next_step=command or f"run {pipeline.name} again for {scope}",
        )
    except TwiceError as error:
        result.status = "held" if isinstance(error, ScopeHeld) else "failed"
        result.error = error
    except BaseException as error:
        # Whether it comes from a store, from Spark or from twice: the caller gets it, and the run has ended.
        end_failed_run(runtime.ledger, run, error)
        _report(runtime, result, "failed", str(error))
        raise
    error_text = str(result.error) if result.error else ""
    end_run(runtime.ledger, run, result.status, error_text)
    _report(runtime, result, "finished" if result.status == "done" else "failed", error_text)
    return result


def _run_steps(
    runtime: Runtime,
    pipeline: Pipeline,
    planned_steps: Sequence[PlannedStep],
    result: RunResult,
    one_step: Callable[..., StepResult],
    accept: AcceptedGates,
) -> None:
    """Run the steps one after the other, each followed by its effects."""
    for planned in planned_steps:  # a pattern that a store does not support is refused before the first step runs
        runtime.stores.of(planned.step.writes)
    for planned in planned_steps:
        done = one_step(runtime, pipeline, planned, result.run, accept=accept.get(planned.step.name, {}))
        result.steps.append(done)
        # A superseded run published nothing: what the table holds is about a later window.
        if runtime.after_step is not None and done.status != "superseded":
            result.effects += runtime.after_step(runtime, pipeline, planned, result.run)


def run_planned_step(
    runtime: Runtime,
    pipeline: Pipeline,
    planned: PlannedStep,
    run: str,
    *,
    skip_fresh: bool,
    wait: float,
    chunk: ChunkOptions | None = None,
    accept_late: bool = False,
    accept: Mapping[str, str] | None = None,
    rebuild_after_wait: bool = False,
    abandoned: Callable[[], bool] = lambda: False,
) -> StepResult:
    """Bring one planned step up to date, with retries for transient errors.

    `chunk`: how several partitions are worked on together;
    `accept_late` lets a closed partition of a table with `on_late="fail"` be rebuilt; `rebuild_after_wait` rebuilds it
    also where another run that was waited for seems to have built it; once it is `abandoned`, no source is called.
    """
    task = task_of(runtime, pipeline, planned, run)
    task = dataclasses.replace(
        task, skip_fresh=skip_fresh, wait=wait, accept_late=accept_late, rebuild_after_wait=rebuild_after_wait
    )
    task = dataclasses.replace(task, abandoned=abandoned, accepted_gates=accept or {})
    return run_step(dataclasses.replace(task, chunk=chunk or task.chunk))


def attempt_once(task: Task) -> Finding:
    """Make one attempt and record how it ended."""
    keep_parts(task.ledger, task.step, task.code)
    with recorded_attempt(task) as recorded:
        return attempt(recorded)


def run_step(task: Task, try_once: Callable[[Task], Finding] = attempt_once) -> StepResult:
    """Make attempts until one succeeds, or fails with an error that is not transient."""
    started = time.monotonic()
    retry = task.step.retry
    numbers = 0

    def should_retry(error: Exception) -> bool | float:
        if not is_transient(error, task.step.transient):
            return False
        if numbers < retry.attempts:
            task.report("retrying", str(error).splitlines()[0], {"attempt": numbers})
        return wait_hint(error) or True

    try:
        for tries in stamina.retry_context(
            on=should_retry,
            attempts=retry.attempts,
            timeout=retry.deadline,
            wait_initial=retry.wait_initial,
            wait_max=retry.wait_max,
            wait_jitter=retry.wait_initial,
        ):
            with tries:
                numbers += 1
                finding = try_once(dataclasses.replace(task, number=numbers))
    except TransientError as error:
        if numbers < 2:
            raise
        raise RetriesExhausted(
            f"step {task.step.name} failed {numbers} times, last: {error.message}",
            unchanged=error.unchanged,
            next_step="run it again later; exit code 75 means that an orchestrator may retry",
        ) from error
    seconds = time.monotonic() - started
    # Readers do not see a shadow yet.
    built = task.step.shadow_of is not None and finding.status == "published"
    state: State = "built" if built else finding.status  # type: ignore[assignment]
    data = {**finding.details, "rows": finding.rows, "digest": finding.digest, "seconds": seconds}
    task.report(state, data=data)
    return StepResult(
        task.step.name,
        task.step.writes.name,
        str(task.target.scope),
        state,
        finding.rows,
        finding.digest,
        finding.version,
        numbers,
        seconds,
        details=finding.details,
        refused={task.target.name(partition): reason for partition, reason in finding.refused.items()},
    )


def task_of(runtime: Runtime, pipeline: Pipeline, planned: PlannedStep, run: str) -> Task:
    """Return the task of a planned step, in a Spark session of its own."""
    return Task(
        pipeline=pipeline,
        step=planned.step,
        scope=planned.scope,
        target=planned.target,
        run=run,
        code=fingerprint(planned.step),
        session=fresh(runtime.spark, pipeline.zone.key),
        stores=runtime.stores,
        ledger=runtime.ledger,
        lease=runtime.lease,
        listener=runtime.listener,
    )


def _report(runtime: Runtime, result: RunResult, state: State, detail: str = "") -> None:
    runtime.listener(Event(state, result.run, result.pipeline, result.scope, detail=detail))
