"""A verification: copy the inputs, do a clean run, then one check after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twice.engine.plan import plan
from twice.errors import (
    ConfigError,
    DefinitionError,
    EnvironmentProblem,
    Interrupted,
    RetriesExhausted,
    TransientError,
    TwiceError,
    UsageError,
)
from twice.model.windows import Window
from twice.verify.checks import chosen
from twice.verify.few_rows import settings_for
from twice.verify.preparing import Inputs, Preparing
from twice.verify.trial import Finding, NotRun, Outcome, Trial

if TYPE_CHECKING:
    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.verify.sandbox import Sandbox
    from twice.verify.trial import Check


@dataclass(frozen=True)
class Request:
    """What is to be verified, and how."""

    window: Window
    steps: Sequence[str] = ()
    checks: Sequence[str] = ()
    quick: bool = False
    sample: int | None = None
    seed: int = 1
    command: tuple[str, ...] = ()
    place: str = ""
    report: Callable[[str], None] = lambda _: None
    # Called after each check, with the trial that it was run on.
    seen: Callable[[Trial, Outcome], None] = lambda _trial, _outcome: None


@dataclass
class Report:
    """The results of a verification."""

    pipeline: str
    unit: str
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    inputs: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failed(self) -> list[Outcome]:
        """The checks that found something."""
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]

    @property
    def findings(self) -> Iterator[Finding]:
        """Everything that was found."""
        for outcome in self.outcomes:
            yield from outcome.findings

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: if no check could run, nothing was shown to hold."""
        return 0 if not self.failed and any(outcome.status == "passed" for outcome in self.outcomes) else 1

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON scalars."""
        return {
            "pipeline": self.pipeline,
            "unit": self.unit,
            "seed": self.seed,
            "seconds": round(self.seconds, 2),
            "inputs": dict(self.inputs),
            "warnings": list(self.warnings),
            "checks": [outcome.to_json() for outcome in self.outcomes],
        }


def verify(production: Runtime, sandbox: Sandbox, pipeline: Pipeline, request: Request) -> Report:
    """Run the checks; a pipeline that cannot run at all is reported once, by raising what stops it."""
    started = time.monotonic()
    checks = chosen(request.checks, quick=request.quick)
    report = make_all(checks, prepared(production, sandbox, pipeline, request), request)
    report.seconds = time.monotonic() - started
    return report


def make_all(checks: Sequence[Check], trial: Trial, request: Request) -> Report:
    """Do a clean run, then one check after the other."""
    started = time.monotonic()
    label = trial.pipeline.grain.label(trial.unit.start, trial.pipeline.zone)
    report = Report(trial.pipeline.name, label, trial.seed)
    report.warnings, report.inputs = trial.inputs.warnings, trial.inputs.rows
    with trial.sandbox.settings(settings_for(sum(trial.inputs.rows.values()))):
        request.report("a clean run")
        _ = trial.expected
        for check in checks:
            request.report(check.name)
            report.outcomes.append(make(check, trial))
            request.seen(trial, report.outcomes[-1])
    report.seconds = time.monotonic() - started
    return report


def prepared(production: Runtime, sandbox: Sandbox, pipeline: Pipeline, request: Request) -> Trial:
    """Copy what the chosen steps read."""
    trial = on_copies(sandbox, pipeline, request, Inputs())
    request.report("copying inputs")
    span = Window(trial.before.start, request.window.end)
    trial.inputs = Preparing(production, sandbox, pipeline, span, request.sample).prepare(trial.steps)
    return trial


def on_copies(sandbox: Sandbox, pipeline: Pipeline, request: Request, inputs: Inputs) -> Trial:
    """Return a trial of the chosen steps on inputs that were copied, or made, before."""
    steps = _steps(pipeline, request.steps)
    plan(pipeline, request.window, steps=[step.name for step in steps])  # refuses what no run could do
    before = _before(pipeline, request.window)
    return Trial(sandbox, pipeline, steps, request.window, before, inputs, request.seed, request.command, request.place)


def make(check: Check, trial: Trial) -> Outcome:
    """Run one check; what it cannot do is reported as not run, never as passed."""
    started = time.monotonic()

    def not_run(reason: str) -> Outcome:
        return Outcome(check.name, check.promise, "not run", reason, (), time.monotonic() - started)

    try:
        seen = check(trial)
    except NotRun as reason:
        return not_run(str(reason))
    except Interrupted:
        raise
    except TwiceError as error:
        if isinstance(error, TransientError | RetriesExhausted | EnvironmentProblem | ConfigError | DefinitionError):
            return not_run(f"it could not be run here: {error.message}")
        finding = trial.finding(
            check,
            trial.step_of(error),
            f"a run of this check was refused: {error.message}",
            cause="the step cannot do what a clean run of it can",
            fix=error.next_step or "see the message",
        )
        return Outcome(check.name, check.promise, "failed", finding.what, (finding,), time.monotonic() - started)
    except Exception as error:  # noqa: BLE001 - a check that cannot run must not stop the rest
        message = (str(error).splitlines() or [""])[0]
        return not_run(f"it ended with {type(error).__name__}: {message}")
    status = "failed" if seen.findings else "passed"
    summary = seen.summary if not seen.findings else f"{len(seen.findings)} found"
    return Outcome(check.name, check.promise, status, summary, tuple(seen.findings), time.monotonic() - started)  # type: ignore[arg-type]


def _steps(pipeline: Pipeline, names: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps to verify; extracts read from outside and are only run where their rows are missing."""
    wanted = {pipeline.find(name).name for name in names} if names else set(pipeline.steps)
    found = tuple(step for step in pipeline.ordered() if step.name in wanted and step.kind != "extract")
    if not found:
        raise UsageError(
            f"nothing of {pipeline.name} can be verified: an extract reads from outside, which no sandbox can pin",
            unchanged="nothing was run",
            next_step="verify a step that reads what it extracts",
        )
    return found


def _before(pipeline: Pipeline, window: Window) -> Window:
    """Return the unit before a unit."""
    grain, zone = pipeline.grain, pipeline.zone
    start = grain.floor(window.start - (window.end - window.start) / 2, zone)
    return Window(start, window.start)
