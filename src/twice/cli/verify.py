"""`twice verify`: run a pipeline in a sandbox and report which promises hold."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from twice.cli.options import example
from twice.cli.output import json_option, print_json, print_table, print_text
from twice.cli.problems import report_error
from twice.cli.settings import Settings, pass_settings, require_pyspark
from twice.cli.verifying import Watcher, watching
from twice.engine.plan import plan
from twice.errors import EnvironmentProblem, Interrupted, TwiceError, UsageError
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.windows import Window
    from twice.verify.running import Report
    from twice.verify.saving import Saved
    from twice.verify.trial import Check, Outcome, Trial

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@dataclass(frozen=True)
class Order:
    """The request: everything is read, and refused if it cannot run, before Spark starts."""

    settings: Settings
    # As it was typed.
    name: str
    pipeline: Pipeline
    window: Window
    checks: Sequence[Check]
    steps: Sequence[str] = ()
    sample: int | None = None
    seed: int = 1
    sandbox: Path | None = None
    save_case: Path | None = None
    junit: Path | None = None
    html: Path | None = None

    @property
    def unit(self) -> str:
        """The unit as `--for` reads it."""
        return self.pipeline.grain.label(self.window.start, self.pipeline.zone)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a command that verifies the same, without those that choose checks."""
        found = [self.name, "--for", self.unit]
        for step in self.steps:
            found += ["--step", step]
        if self.sample is not None:
            found += ["--sample", str(self.sample)]
        if self.sandbox is not None:
            found += ["--sandbox", str(self.sandbox)]
        return tuple(found)


@dataclass
class Done:
    """The results so far."""

    report: Report
    trial: Trial | None = None
    saved: list[Saved] = field(default_factory=list)


@click.command(short_help="Prove in a sandbox that a pipeline is safe to run twice.")
@click.argument("pipeline", required=False)
@click.option("--for", "for_", metavar="X", help="The unit to verify, such as 2026-04-25; the one before it runs, too.")
@click.option("--quick", is_flag=True, help="Only the checks that find most of what goes wrong.")
@click.option("--thorough", is_flag=True, help="All checks; this is the default.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Only this check; may be given several times.")
@click.option("--step", "steps", multiple=True, metavar="S", help="Only this step; may be given several times.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Copy at most N rows of each input.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="The seed for shuffling and mutating rows."
)
@click.option("--sandbox", type=_FOLDER, metavar="FOLDER",
              help="Keep the sandbox in a new folder in this one; without it, it is removed at the end.")  # fmt: skip
@click.option("--save-case", type=_FOLDER, metavar="FOLDER",
              help="Shrink what a check found to a few input rows, and write them as a pytest file.")  # fmt: skip
@click.option("--junit", type=_FILE, metavar="FILE", help="Also write JUnit XML.")
@click.option("--html", type=_FILE, metavar="FILE", help="Also write one HTML page.")
@click.option("--list", "list_", is_flag=True, help="List the checks and their promises; nothing is run.")
@json_option
@pass_settings
def verify(
    settings: Settings,
    pipeline: str | None,
    for_: str | None,
    quick: bool,
    thorough: bool,
    checks: tuple[str, ...],
    steps: tuple[str, ...],
    sample: int | None,
    seed: int,
    sandbox: Path | None,
    save_case: Path | None,
    junit: Path | None,
    html: Path | None,
    list_: bool,
    as_json: bool,
) -> None:
    """Run PIPELINE in a sandbox: twice, shuffled, killed, out of order, and report which promises hold.

    Production tables are only read. Exit code 0: every check that could run passed; 1: a check failed, or none could
    run; 3: the pipeline cannot run at all.

    \b
    twice verify --list
    twice verify shop --for 2026-04-25 --quick
    twice verify shop --for 2026-04-25 --step revenue --check run-twice
    twice verify shop --for 2026-04-25 --save-case tests/ --junit verify.xml --html verify.html
    """
    require_pyspark()
    if list_:
        _list(as_json=as_json)
        return
    if sum([quick, thorough, bool(checks)]) > 1:
        raise UsageError("give one of --quick, --thorough and --check", unchanged="nothing was run")
    if pipeline is None:
        raise UsageError("which pipeline? Give its name in [pipelines] of twice.toml, or module:object",
                         unchanged="nothing was run", next_step="twice verify PIPELINE --for X")  # fmt: skip
    from twice.verify.checks import chosen

    wanted = chosen(checks, quick=quick)
    found = find_pipeline(settings.config, pipeline)
    window = _window(found, for_)
    order = Order(settings, pipeline, found, window, wanted, steps, sample, seed, sandbox, save_case, junit, html)
    _refuse(order)
    code = verify_all(order, as_json=as_json)
    if code:
        raise click.exceptions.Exit(code)


def _list(*, as_json: bool) -> None:
    from twice.verify.checks import ALL

    if as_json:
        print_json([{"check": check.name, "promise": check.promise, "quick": check.quick,
                     "text": _docs(check)} for check in ALL])  # fmt: skip
        return
    for check in ALL:
        print_text(f"{check.name}{' (quick)' if check.quick else ''}: {check.promise}")
        for part in _docs(check).split("\n\n"):
            print_text(textwrap.fill(part, 100, initial_indent="    ", subsequent_indent="    "))


def _docs(check: Check) -> str:
    """Return the documentation of a check, one text per paragraph."""
    parts = (type(check).__doc__ or "").strip().split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _window(pipeline: Pipeline, for_: str | None) -> Window:
    if for_ is None:
        raise UsageError(
            f"which {pipeline.grain}? Give --for. There is no default, not even yesterday: what is verified must not "
            "depend on when it is started",
            unchanged="nothing was run",
            next_step=f"twice verify {pipeline.name} --for {example(pipeline)}",
        )
    return pipeline.grain.unit(for_, pipeline.zone)


def _refuse(order: Order) -> None:
    """Refuse, before Spark starts, a verification that could not succeed."""
    from twice.verify.sandbox import refuse_production

    plan(order.pipeline, order.window, steps=order.steps or None)
    if order.sandbox is not None:
        refuse_production(order.settings.config, order.sandbox)
    for option, file in (("--junit", order.junit), ("--html", order.html), ("--save-case", order.save_case)):
        folder = file if file is None or option == "--save-case" else file.parent
        while folder is not None and not folder.exists():
            folder = folder.parent
        if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise UsageError(f"{option} {file}: {folder} cannot be written to", unchanged="nothing was run")


def verify_all(order: Order, *, as_json: bool, runtime: Runtime | None = None) -> int:
    """Verify, print what was found, write the requested files; return the exit code."""
    from twice.verify.running import Report

    done = Done(Report(order.pipeline.name, order.unit, order.seed))
    try:
        with watching(order.settings, [check.name for check in order.checks]) as watcher:
            _verify(order, done, watcher, runtime)
    except (KeyboardInterrupt, Interrupted):
        _write_files(order, done)
        _print(order, done, as_json=as_json)
        raise Interrupted(
            f"the verification of {order.pipeline.name} was interrupted after {len(done.report.outcomes)} of "
            f"{len(order.checks)} checks",
            unchanged="production was only read",
            next_step=order.settings.command,
        ) from None
    except _CannotRun as problem:
        _write_files(order, done, str(problem.error))
        if as_json:
            failure = {"error": str(problem.error), "exit_code": problem.error.exit_code}
            print_json(done.report.to_json() | failure)
        return report_error(order.settings, problem.error)
    except Exception:
        if done.report.outcomes:  # what is known is reported, whatever stopped the rest
            _write_files(order, done)
            _print(order, done, as_json=as_json)
        raise
    _write_files(order, done)
    _print(order, done, as_json=as_json)
    return done.report.exit_code


class _CannotRun(Exception):
    """The pipeline cannot run at all: reported once, not once for each check."""

    def __init__(self, error: TwiceError) -> None:
        super().__init__(str(error))
        self.error = error


def _verify(order: Order, done: Done, watcher: Watcher, runtime: Runtime | None) -> None:
    from twice.verify.report.texts import plain
    from twice.verify.running import Request
    from twice.verify.running import verify as work
    from twice.verify.sandbox import Sandbox

    def seen(trial: Trial, outcome: Outcome) -> None:
        done.trial = trial
        done.report.outcomes.append(_completed(outcome, order.settings))
        watcher.seen(outcome)

    names = [check.name for check in order.checks]
    config, place = order.settings.config, order.settings.config.pipelines.get(order.name, order.name)
    request = Request(order.window, order.steps, names, False, order.sample, order.seed, order.words, place,
                      watcher.report, seen)  # fmt: skip
    with _opened(order, runtime) as shop, Sandbox.open(config, shop.spark, _new_folder(order.sandbox)) as sandbox:
        try:
            report = work(shop, sandbox, order.pipeline, request)
        except TwiceError as error:
            if done.report.outcomes or error.exit_code == UsageError.exit_code or isinstance(error, Interrupted):
                raise
            message = f"{order.pipeline.name} {order.unit} cannot be verified: {plain(error.message)}"
            unchanged = "production was only read"
            raise _CannotRun(type(error)(message, unchanged=unchanged, next_step=plain(error.next_step))) from error
        done.report = replace(report, outcomes=done.report.outcomes)
        if order.save_case is not None:
            _save(order, done, watcher)


@contextlib.contextmanager
def _opened(order: Order, runtime: Runtime | None) -> Iterator[Runtime]:
    """Start Spark as the project configures it; production's ledger is neither read nor created."""
    if runtime is not None:
        yield runtime
        return
    from twice.api import runtime as opened
    from twice.ledger import open_ledger

    if order.settings.config.spark.get("spark.master", "local").startswith("local"):
        # Many short jobs: code that Java compiles quickly ends sooner than code that it compiles well.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    with (
        tempfile.TemporaryDirectory(prefix="twice-verify-") as folder,
        opened(order.settings.config, ledger=open_ledger(f"sqlite:///{folder}/ledger.db")) as shop,
    ):
        yield shop


def _new_folder(within: Path | None) -> Path | None:
    """Create a new folder for this verification, so that it does not find files of an earlier one."""
    if within is None:
        return None
    number = 1
    while True:
        try:
            (within / f"verify-{number}").mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise EnvironmentProblem(
                f"{within} cannot be written: {error.strerror}", unchanged="nothing was run"
            ) from None
        else:
            return within / f"verify-{number}"


def _completed(outcome: Outcome, settings: Settings) -> Outcome:
    """Put the global options of this command into the commands that repeat a check."""
    start = shlex.join(["twice", *settings.global_arguments, "verify"])
    findings = tuple(
        replace(finding, repeat=finding.repeat.replace("twice verify", start, 1)) for finding in outcome.findings
    )
    return replace(outcome, findings=findings)


def _save(order: Order, done: Done, watcher: Watcher) -> None:
    """Write the first finding of each failed check as a test."""
    from twice.verify.saving import save_case

    known = {check.name: check for check in order.checks}
    assert order.save_case is not None  # noqa: S101 - asked for
    for outcome in done.report.failed:
        if outcome.findings and done.trial is not None:
            watcher.report(f"shrinking what {outcome.check} found")
            done.saved.append(save_case(done.trial, known[outcome.check], outcome.findings[0], order.save_case))


def _write_files(order: Order, done: Done, problem: str = "") -> None:
    from twice.verify.report.junit import as_junit
    from twice.verify.report.page import as_html

    for file, text in ((order.junit, as_junit), (order.html, as_html)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text(done.report, problem), encoding="utf-8")


def _print(order: Order, done: Done, *, as_json: bool) -> None:
    from twice.verify.report.terminal import COLUMNS, finding_lines, headline, table, write_rest

    report = done.report
    if as_json:
        print_json(report.to_json() | {"exit_code": report.exit_code, "saved": [each.to_json() for each in done.saved]})
        return
    for warning in report.warnings:
        print_text(f"warning: {warning}")
    if report.outcomes:
        print_table(COLUMNS, table(report))
    folder = order.sandbox or order.settings.config.root / ".twice" / "verify"
    try:
        findings = write_rest(report, folder)
    except OSError:  # the terminal shows the finding anyway
        findings = [(finding, None) for finding in report.findings]
    for finding, rest in findings:
        print_text("\n" + "\n".join(finding_lines(finding, rest)))
    if done.saved:
        print_text("")
    for saved in done.saved:
        where = f"saved as {saved.file}" if saved.file is not None else "not saved"
        print_text(f"{saved.check} ({saved.step}) {where}: {saved.text}")
    print_text(f"\n{headline(report)}" if report.outcomes else headline(report))
