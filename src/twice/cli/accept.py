"""`twice accept`: mark a code change as not affecting results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, pass_settings
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.engine.operations.accepting import Accepted


@click.command(short_help="Mark a code change as not affecting results.")
@click.argument("pipeline")
@click.option("--step", "steps", multiple=True, metavar="S", help="Only this step; may be given several times.")
@click.option("--from", "from_", metavar="A", help="The first unit to accept.")
@click.option("--to", metavar="B", help="Where to stop; B itself is not accepted.")
@click.option("--dry-run", is_flag=True, help="Only show what would be accepted.")
@json_option
@pass_settings
def accept(
    settings: Settings,
    pipeline: str,
    steps: tuple[str, ...],
    from_: str | None,
    to: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Mark partitions that are stale only because of a code change as done, after a refactoring that changes no row.

    No table is touched and nothing is computed; the acceptance is recorded as a run. Partitions whose
    data changed too are left stale, and then the exit code is 3.

    \b
    twice accept shop --step revenue --dry-run
    """
    found = find_pipeline(settings.config, pipeline)
    from twice.engine.status import bounds

    start, end = bounds(found, from_, to)
    for name in steps:
        found.find(name)
    ledger = settings.ledger_if_any()
    run: str | None = None
    results: list[Accepted] = []
    if ledger is not None:
        from twice.engine.operations import accepting

        command = settings.command
        run, results = accepting.accept(ledger, found, start, end, steps=steps, command=command, dry_run=dry_run)
    if as_json:
        print_json({"pipeline": found.name, "run": run, "dry_run": dry_run, "steps": [s.to_json() for s in results]})
    else:
        _report(found.name, run, results, dry_run=dry_run)
    if any(step.refused for step in results):
        raise click.exceptions.Exit(3)


def _report(pipeline: str, run: str | None, results: Sequence[Accepted], *, dry_run: bool) -> None:
    if not any(step.accepted for step in results):
        print_text(f"{pipeline}: nothing to accept: no partition is stale by its code alone")
    for step in results:
        if step.accepted:
            what = "would be accepted" if dry_run else "accepted"
            changed = f" ({', '.join(step.changed)})" if step.changed else ""
            print_text(f"{step.step} → {step.table}: {_span([p.name for p in step.accepted])} {what}{changed}")
        for partition in step.refused:
            why = "; ".join(reason.text for reason in partition.reasons if reason.kind != "code")
            print_text(f"{step.step} → {step.table}: {partition.name} stays stale, run it: {why}")
    if run:
        print_text(f"recorded as run {run}")


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
