"""`twice replay`: rebuild a recorded run and compare it with its record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, print_json, print_table, print_text
from twice.cli.progress import progress
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError
from twice.loading import load_pipelines

if TYPE_CHECKING:
    from twice.replay.recorded import Plan
    from twice.replay.report import Report, StepReplay


@click.command(short_help="Rebuild a recorded run and compare.")
@click.argument("run")
@click.option("--step", "steps", multiple=True, metavar="S", help="Only this step; may be given several times.")
@click.option("--verify", is_flag=True, help="End with exit code 1 unless every step is the same.")
@click.option("--rows", type=click.IntRange(min=0), default=5, show_default=True, metavar="N",
              help="How many of the rows that differ to show for each step.")  # fmt: skip
@json_option
@pass_settings
def replay(settings: Settings, run: str, steps: tuple[str, ...], verify: bool, rows: int, as_json: bool) -> None:
    """Rebuild RUN from its pinned inputs and its code, and compare the result with what was recorded.

    Each step is *same*, *differs* with the rows, or *cannot* with the reason. Nothing is published
    or recorded. A unique prefix of the run's id is enough.

    \b
    twice replay 06ksm4
    twice replay 06ksm4 --step revenue --verify
    """
    report = rebuilt(settings, run, steps, rows)
    if as_json:
        print_json(report.to_json())
    else:
        print_report(report)
    if verify and not report.is_same:
        raise click.exceptions.Exit(1)


def rebuilt(settings: Settings, run: str, steps: tuple[str, ...], rows: int) -> Report:
    """Look the run up, and start Spark only if something of it can be computed."""
    from twice.replay.recorded import plan_replay
    from twice.replay.report import Report, StepReplay

    ledger = settings.ledger_if_any()
    if ledger is None:
        raise UsageError(f"no run begins with {run!r}: nothing has run yet")
    plan = plan_replay(ledger, load_pipelines(settings.config).values(), run, steps=steps)
    if not plan.needs_spark:
        return Report(plan.run, [step for step in plan.steps if isinstance(step, StepReplay)])
    return _compute(settings, plan, rows)


def _compute(settings: Settings, plan: Plan, rows: int) -> Report:
    from twice.replay.recorded import Recorded
    from twice.replay.running import replay as work

    names = [step.step.name for step in plan.steps if isinstance(step, Recorded)]
    with progress(settings, names) as listener, settings.runtime(listener) as shop:
        return work(shop, plan, rows=rows)


def print_report(report: Report) -> None:
    """Print a report for a human: one row per step, then a sentence each, with what differs."""
    run = report.run
    print_text(f"run {run.id} of {run.pipeline} {run.scope}")
    if not report.steps:
        print_text("it has no steps to rebuild")
        return
    rows = [
        [step.step, step.table, step.scope, step.status, _number(step.recorded_rows), _number(step.rebuilt_rows)]
        for step in report.steps
    ]
    print_table(["step", "table", "scope", "replay", "recorded", "rebuilt"], rows)
    for step in report.steps:
        for line in _lines(step):
            print_text(line)
    for remark in report.remarks:
        print_text(f"note: {remark}")


def _number(rows: int | None) -> str:
    return "" if rows is None else str(rows)


def _lines(step: StepReplay) -> Iterator[str]:
    yield f"{step.step}: {step.status}: {step.why}"
    for name, found in step.partitions.items():
        yield f"    {name}: {found.added} added, {found.removed} removed, {found.changed} changed"
        for column, (old, new) in found.sums.items():
            if old != new:
                yield f"      sum of {column}: {old} published, {new} rebuilt"
    if step.samples:
        yield "    - published, + rebuilt:"
    yield from (f"    {line}" for line in step.samples)
    yield from (f"    note: {remark}" for remark in step.remarks)
    if step.next_step:
        yield f"    next: {step.next_step}"
