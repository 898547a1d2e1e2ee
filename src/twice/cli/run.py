"""`twice run`: bring a pipeline up to date for one unit of its grain, or for several in a row."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from twice.cli.options import pairs, tags_of, units
from twice.cli.output import json_option, print_json, print_text
from twice.cli.problems import report_error
from twice.cli.progress import progress
from twice.cli.settings import Settings, pass_settings
from twice.engine.attempt.accepted_gates import accepted_gates
from twice.engine.events import Event
from twice.engine.plan import PlannedStep, plan
from twice.errors import TwiceError, UsageError
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.engine.attempt.task import StepResult
    from twice.engine.events import Listener
    from twice.engine.run import RunResult, Runtime
    from twice.model.pipelines import Pipeline

log = logging.getLogger("twice")


@dataclass(frozen=True)
class Request:
    """The request: everything is read and planned before anything starts."""

    settings: Settings
    place: str
    pipeline: Pipeline
    plans: Sequence[Sequence[PlannedStep]]
    steps: Sequence[str]
    dimensions: Mapping[str, str]
    tags: Mapping[str, str]
    skip_fresh: bool
    wait: float
    accept_late: bool = False
    accept: Sequence[str] = ()
    because: str = ""

    @property
    def command(self) -> str:
        """The command line, as a shell reads it."""
        return self.settings.command

    def label(self, index: int) -> str:
        """Name the unit of a run as `--for` and `--from` read it."""
        window = self.plans[index][0].scope.window
        assert window is not None  # noqa: S101 - a run always has a window
        return self.pipeline.grain.label(window.start, self.pipeline.zone)

    def rest(self, index: int) -> str:
        """Return the exact command that continues at one of the units."""
        parts = ["twice", *self.settings.global_arguments, "run", self.place]
        if len(self.plans) == 1:
            parts += ["--for", self.label(index)]
        else:
            window = self.plans[-1][0].scope.window
            assert window is not None  # noqa: S101 - a run always has a window
            end = self.pipeline.grain.label(window.end, self.pipeline.zone)
            parts += ["--from", self.label(index), "--to", end]
        for option, values in (("--set", self.dimensions), ("--tag", self.tags)):
            for name, value in values.items():
                parts += [option, f"{name}={value}"]
        for step in self.steps:
            parts += ["--step", step]
        if self.skip_fresh:
            parts.append("--skip-fresh")
        if self.accept_late:
            parts.append("--accept-late")
        for gate in self.accept:
            parts += ["--accept", gate]
        if self.because:
            parts += ["--because", self.because]
        if self.wait:
            parts += ["--wait", f"{self.wait:g}"]
        return shlex.join(parts)


@click.command(short_help="Bring a pipeline up to date.")
@click.argument("pipeline")
@click.option("--for", "for_", metavar="X", help="The one unit to run, such as 2026-04-25. There is no default.")
@click.option("--from", "from_", metavar="A", help="The first of several units; each is a run of its own.")
@click.option("--to", metavar="B", help="Where the units end; B itself is not run.")
@click.option("--step", "steps", multiple=True, metavar="S", help="Only this step; may be given several times.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Fix a dimension: --set tenant=acme.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag recorded with the run.")
@click.option("--explain", is_flag=True, help="Show the steps that would run; Spark is not started.")
@click.option("--skip-fresh", is_flag=True, help="Skip what is up to date: same inputs, same code, same files.")
@click.option("--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
              help="Wait for a scope that another run holds, instead of ending with exit code 4.")  # fmt: skip
@click.option(
    "--accept-late", is_flag=True, help='Rebuild closed units of tables with on_late="fail", late rows included.'
)
@click.option("--accept", multiple=True, metavar="GATE",
              help="Let this gate fail once, in this run; may be given several times.")  # fmt: skip
@click.option("--because", default="", metavar="TEXT", help="Why --accept is right; recorded with the run.")
@json_option
@pass_settings
def run(
    settings: Settings,
    pipeline: str,
    for_: str | None,
    from_: str | None,
    to: str | None,
    steps: tuple[str, ...],
    sets: tuple[str, ...],
    tags: tuple[str, ...],
    explain: bool,
    skip_fresh: bool,
    wait: float,
    accept_late: bool,
    accept: tuple[str, ...],
    because: str,
    as_json: bool,
) -> None:
    """Bring PIPELINE up to date for one unit of its grain, or for several in a row.

    PIPELINE is a name from [pipelines] in twice.toml, or module:object. Running the same unit
    again leaves the same tables behind.

    \b
    twice run shop --for 2026-04-25
    twice run shop --for 2026-04-25 --step revenue --explain
    twice run shop --from 2026-04-01 --to 2026-05-01 --skip-fresh
    twice run shop --for 2026-12-25 --accept "row count at least 100" --because "the shop was closed"
    """
    dimensions, kept_tags = pairs(sets, "--set"), tags_of(tags, settings.secrets)
    found = find_pipeline(settings.config, pipeline)
    windows = units(found, for_, from_, to)
    plans = [plan(found, window, dimensions=dimensions, steps=steps or None) for window in windows]
    if accept and for_ is None:
        raise UsageError(
            "--accept lets one unit through: give it with --for", next_step="--for X instead of --from, --to"
        )
    accepted_gates(plans[0], accept, because)
    request = Request(
        settings, pipeline, found, plans, steps, dimensions, kept_tags, skip_fresh, wait, accept_late, accept, because
    )
    if explain:
        _explain(request, as_json=as_json)
        return
    code = execute_all(request, as_json=as_json)
    if code:
        raise click.exceptions.Exit(code)


def _explain(request: Request, *, as_json: bool) -> None:
    if as_json:
        runs = [
            {"scope": str(planned_steps[0].scope), "steps": [planned.to_json() for planned in planned_steps]}
            for planned_steps in request.plans
        ]
        print_json({"pipeline": request.pipeline.name, "runs": runs})
        return
    for planned_steps in request.plans:
        print_text(f"{request.pipeline.name} {planned_steps[0].scope}")
        for number, planned in enumerate(planned_steps, start=1):
            print_text(f"  {number}. {planned.text}")


def execute_all(request: Request, *, as_json: bool, runtime: Runtime | None = None) -> int:
    """Run every unit, oldest first, until one fails; return the exit code."""
    results: list[RunResult] = []
    error: TwiceError | None = None
    names = [planned.step.name for planned in request.plans[0]]
    try:
        with progress(request.settings, names) as listener:
            scope = request.plans[0][0].scope
            listener(Event("planned", "", request.pipeline.name, str(scope), detail=_planned(request, names)))
            if runtime is not None:
                error = _loop(request, runtime, results)
            elif not (error := _held(request, results)) and not _are_fresh(request, results, listener):
                scope = request.plans[len(results)][0].scope
                listener(Event("starting", "", request.pipeline.name, str(scope), detail="Spark"))
                with request.settings.runtime(listener) as opened:
                    error = _loop(request, opened, results)
    except TwiceError as problem:
        if isinstance(problem, UsageError):
            raise
        error = problem
        _call_hook(request, {"id": None, "status": "failed", "attempts": []}, problem)
    done = sum(1 for result in results if result.error is None)
    if as_json:
        print_json(
            {
                "pipeline": request.pipeline.name,
                "exit_code": error.exit_code if error else 0,
                "next_step": request.rest(done) if error else "",
                "runs": [result.to_json() for result in results],
            }
        )
    else:
        for result in results:
            print_text(summary(result))
    return report_error(request.settings, error, more=_go_on(request, done, error)) if error else 0


def _planned(request: Request, steps: Sequence[str]) -> str:
    units = len(request.plans)
    later = f", and {units - 1} more unit{'s' if units > 2 else ''}" if units > 1 else ""
    return f"{', '.join(steps)}{later}"


def summary(result: RunResult) -> str:
    """Return in one line how a run ended."""
    steps = ", ".join(f"{step.step} {step.status} ({step.rows} rows{_accepted(step)})" for step in result.steps)
    effects = "".join(f"; effect {each.effect} {each.scope}: {each.text}" for each in result.effects if each.states)
    return (
        f"run {result.run} of {result.pipeline} {result.scope}: {result.status}"
        + (f": {steps}" if steps else "")
        + effects
    )


def _accepted(step: StepResult) -> str:
    gates = dict.fromkeys(each["gate"] for each in step.accepted_gates)
    return f", accepted: {'; '.join(gates)}" if gates else ""


def _held(request: Request, results: list[RunResult]) -> TwiceError | None:
    """Check whether another run holds what the first unit needs, before Spark is started."""
    from twice.engine.held_run import find_held

    if request.wait:
        return None
    found = find_held(
        request.settings.config.ledger, request.pipeline, request.plans[0], request.command, tags=request.tags
    )
    if found is None:
        return None
    results.append(found)
    return found.error


def _are_fresh(request: Request, results: list[RunResult], listener: Listener) -> bool:
    """Record the first units that are fresh as far as can be found out without Spark; return whether all are."""
    from twice.engine.fresh_run import find_fresh
    from twice.engine.status.peeked_state import PeekedState

    ledger, pipeline = request.settings.ledger_if_any(), request.pipeline
    state = PeekedState.of(request.settings.config, pipeline.tables()) if request.skip_fresh else None
    if ledger is None or state is None:
        return False
    for planned_steps in request.plans:
        found = find_fresh(
            ledger, state, pipeline, planned_steps, request.command, tags=request.tags, listener=listener
        )
        if found is None:
            break
        results.append(found)
    return len(results) == len(request.plans)


def _loop(request: Request, runtime: Runtime, results: list[RunResult]) -> TwiceError | None:
    from twice.engine.run import execute

    for planned_steps in request.plans[len(results) :]:
        result = execute(
            runtime,
            request.pipeline,
            planned_steps,
            skip_fresh=request.skip_fresh,
            wait=request.wait,
            accept_late=request.accept_late,
            accept=accepted_gates(planned_steps, request.accept, request.because),
            command=request.command,
            tags=request.tags,
        )
        results.append(result)
        if result.error:
            if result.status == "failed":
                _call_hook(request, _as_recorded(runtime, result), result.error)
            return result.error
    return None


def _as_recorded(runtime: Runtime, result: RunResult) -> Mapping[str, object]:
    try:
        return runtime.ledger.runs.get(result.run).to_json()
    except TwiceError:  # the ledger itself may be what failed
        return {"id": result.run, "status": result.status, "attempts": []}


def _call_hook(request: Request, run: Mapping[str, object], error: TwiceError) -> None:
    from twice.engine.hooks import on_failure

    known = {"pipeline": request.pipeline.name, "command": request.command, "error": str(error)}
    problem = on_failure(request.settings.config, {**known, **run, "exit_code": error.exit_code})
    if problem:
        log.error("the failure hook failed: %s", problem)


def _go_on(request: Request, done: int, error: TwiceError) -> str:
    """End a failure with the command that continues; a single run's error may already name it."""
    total = len(request.plans)
    rest = request.rest(done)
    if total > 1:
        return f"{done} of {total} runs are done, {request.label(done)} is not; continue from there:\n  {rest}"
    return "" if error.next_step else f"  next: {rest}"
