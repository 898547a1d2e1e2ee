"""`twice status`: what is done, failed, running, missing or stale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, is_terminal, pass_settings
from twice.errors import UsageError
from twice.loading import find_pipeline, load_pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twice.engine.run import Workshop
    from twice.engine.status import PartitionStatus, StepStatus
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.scopes import Scope
    from twice.model.targets import Target


@click.command(short_help="What is done, failed, running, missing or stale.")
@click.argument("pipeline", required=False)
@click.option("--from", "from_", metavar="A", help="The first unit to look at.")
@click.option("--to", metavar="B", help="Where to stop; B itself is not looked at.")
@click.option("--stale", "only_stale", is_flag=True, help="Only what is stale.")
@click.option("--live", is_flag=True, help="Look at the tables too (starts Spark): finds what was changed by hand.")
@json_option
@pass_settings
def status(
    settings: Settings,
    pipeline: str | None,
    from_: str | None,
    to: str | None,
    only_stale: bool,
    live: bool,
    as_json: bool,
) -> None:
    """Show for each step and partition: done, failed, running, missing or stale, and why.

    Without a range, everything between the first and the last known partition. A partition is
    stale when the content of an input changed or the step's code did.

    \b
    twice status
    twice status shop --from 2026-04-01 --to 2026-05-01 --stale
    """
    pipelines = [find_pipeline(settings.config, pipeline)] if pipeline else _all(settings)
    if (from_ or to) and len(pipelines) > 1:
        raise UsageError("--from and --to need one PIPELINE: a range is read by its grain")
    for found in pipelines:
        _bounds(found, from_, to)
    if live:
        with settings.workshop() as shop:
            found_all = collect(shop.ledger, pipelines, from_, to, live=live_files(shop))
    else:
        found_all = collect(settings.ledger_if_any(), pipelines, from_, to)
    if only_stale:
        found_all = [(found, [_only_stale(step) for step in steps]) for found, steps in found_all]
    if as_json:
        documents = [{"pipeline": found.name, "steps": [s.to_json() for s in steps]} for found, steps in found_all]
        print_json(documents[0] if pipeline else {"pipelines": documents})
        return
    for found, steps in found_all:
        for text in lines(found, steps, only_stale=only_stale):
            print_text(_coloured(text))


def collect(
    ledger: Ledger | None,
    pipelines: Sequence[Pipeline],
    from_: str | None = None,
    to: str | None = None,
    *,
    live: Callable[[Target], Mapping[Scope, str]] | None = None,
) -> list[tuple[Pipeline, list[StepStatus]]]:
    """Look at several pipelines."""
    from twice.engine import status as engine

    return [(found, engine.status(ledger, found, *_bounds(found, from_, to), live=live)) for found in pipelines]


def live_files(workshop: Workshop) -> Callable[[Target], Mapping[Scope, str]]:
    """Return a function that asks a table for the files of its partitions."""

    def files(target: Target) -> Mapping[Scope, str]:
        store = workshop.stores.of(target.table)
        session = workshop.spark
        if not store.exists(session, target.table):
            return dict.fromkeys(target.partitions, "")
        return store.files(session, target, store.version(session, target.table))

    return files


def lines(pipeline: Pipeline, steps: Sequence[StepStatus], *, only_stale: bool = False) -> Iterator[str]:
    """Show a pipeline for a human: neighbours in the same state share a line."""
    yield f"{pipeline.name}: {_counts(steps)}"
    for step in steps:
        if not step.partitions:
            if not only_stale:
                yield f"  {step.step} → {step.table}"
                yield "    nothing has run yet"
            continue
        yield f"  {step.step} → {step.table}"
        for _, same in groupby(step.partitions, key=_alike):
            yield f"    {_group(list(same))}"


def _all(settings: Settings) -> list[Pipeline]:
    found = list(load_pipelines(settings.config).values())
    if not found:
        raise UsageError(
            f"{settings.config.source or 'there is no twice.toml here or above, and so it'} names no pipelines",
            to_go_on="twice status module:object, or add [pipelines] to twice.toml; twice init writes a first one",
        )
    return found


def _bounds(pipeline: Pipeline, from_: str | None, to: str | None) -> tuple[datetime | None, datetime | None]:
    start = pipeline.grain.parse(from_, pipeline.zone) if from_ else None
    end = pipeline.grain.parse(to, pipeline.zone) if to else None
    if start and end and end <= start:
        raise UsageError(f"--to {to} is not after --from {from_}", to_go_on="the end itself is not part of the range")
    return start, end


def _only_stale(step: StepStatus) -> StepStatus:
    from twice.engine.status import StepStatus as Kind

    return Kind(step.step, step.table, tuple(p for p in step.partitions if p.state == "stale"))


def _counts(steps: Sequence[StepStatus]) -> str:
    from twice.engine.status import STATES

    totals = {state: sum(step.counts.get(state, 0) for step in steps) for state in STATES}
    return ", ".join(f"{count} {state}" for state, count in totals.items() if count) or "nothing to show"


def _alike(partition: PartitionStatus) -> object:
    reasons = tuple((reason.kind, reason.subject) for reason in partition.reasons)
    return partition.scope.dimensions, partition.state, reasons


def _group(same: Sequence[PartitionStatus]) -> str:
    first, last = same[0], same[-1]
    if len(same) == 1:
        why = "; ".join(reason.text for reason in first.reasons)
        span = first.name
    else:
        texts = {"data": "{} changed", "code": "the code changed"}
        why = "; ".join(
            texts[reason.kind].format(reason.subject) if reason.kind in texts else reason.text
            for reason in first.reasons
        )
        dimensions = "".join(f" {name}={value}" for name, value in first.scope.dimensions)
        span = f"{first.name.removesuffix(dimensions)} … {last.name} ({len(same)})"
    return f"{span}  {first.state}" + (f": {why}" if why else "")


def _coloured(text: str) -> str:
    if not is_terminal():
        return text
    colours = {"done": "green", "stale": "yellow", "missing": "yellow", "failed": "red", "running": "cyan"}
    for state, colour in colours.items():
        head, found, tail = text.partition(f"  {state}")
        if found and head.startswith("    "):
            return f"{head}  {click.style(state, fg=colour)}{tail}"
    return text
