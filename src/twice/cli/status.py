"""`twice status`: what is done, failed, running, missing or stale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, is_terminal, pass_settings
from twice.errors import UsageError
from twice.loading import all_pipelines, find_pipeline

if TYPE_CHECKING:
    from twice.engine.status import PartitionStatus, PipelineStatus, Reason, Status
    from twice.ledger import EffectRecord
    from twice.model.pipelines import Pipeline


# With more partitions than this, JSON is printed without line breaks.
_LONG = 5_000
_FEW = 20


@click.command(short_help="Show what is done, failed, running, missing or stale.")
@click.argument("pipeline", required=False)
@click.option("--from", "from_", metavar="A", help="The first unit to show.")
@click.option("--to", metavar="B", help="Where to stop; B itself is not shown.")
@click.option("--stale", "only_stale", is_flag=True, help="Only what is stale.")
@click.option("--live", is_flag=True, help="Look at tables and inputs too (may start Spark).")
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
    stale when the content of an input changed or the step's code did, and open while rows for it
    may still arrive. --live also finds tables that were changed by hand and sources that changed.
    Exit code 1: an effect is unknown, dead or outdated, and a person has to look.

    \b
    twice status
    twice status shop --from 2026-04-01 --to 2026-05-01 --stale
    """
    config = settings.config
    pipelines = [find_pipeline(config, pipeline)] if pipeline else all_pipelines(config)
    if (from_ or to) and len(pipelines) > 1:
        raise UsageError("--from and --to need one PIPELINE: a range is read by its grain")
    from twice.engine.status import bounds, collect

    for each in pipelines:
        bounds(each, from_, to)
    if live:
        found = _live(settings, pipelines, from_, to, only_stale=only_stale)
    else:
        found = collect(settings.ledger_if_any(), pipelines, from_, to, only_stale=only_stale)
    if as_json:
        long = sum(len(step.partitions) for step in found.steps) > _LONG
        print_json(found.pipelines[0].to_json() if pipeline else found.to_json(), long=long)
    else:
        for one in found.pipelines:
            for text in lines(one, only_stale=only_stale):
                print_text(_coloured(text))
            for text in _effect_lines(one.effects):
                print_text(text)
    if found.effects:
        raise click.exceptions.Exit(1)


def _live(
    settings: Settings, pipelines: Sequence[Pipeline], from_: str | None, to: str | None, *, only_stale: bool
) -> Status:
    from twice.engine.status import collect, collect_without_spark

    if found := collect_without_spark(
        settings.config, settings.ledger_if_any(), pipelines, from_, to, only_stale=only_stale
    ):
        return found
    from twice.engine.status.table_state import TableState

    with settings.runtime() as shop:
        return collect(shop.ledger, pipelines, from_, to, only_stale=only_stale, live=TableState(shop))


def _effect_lines(records: Sequence[EffectRecord]) -> Iterator[str]:
    if records:
        yield "  effects that need attention (twice effects list --attention):"
    for record in records[:_FEW]:
        state = "outdated: the day was published again with another content" if record.outdated else record.state
        remark = f": {record.note or record.error}" if record.note or record.error else ""
        yield f"    {record.subject}: {state}{remark.splitlines()[0] if remark else ''} ({record.key[:12]})"
    if len(records) > _FEW:
        yield f"    … and {len(records) - _FEW} more"


def lines(found: PipelineStatus, *, only_stale: bool = False) -> Iterator[str]:
    """Show a pipeline for a human: neighbours in the same state share a line."""
    yield f"{found.pipeline}: {_counts(found, only_stale=only_stale)}"
    for step in found.steps:
        if not step.partitions:
            if not only_stale:
                yield f"  {step.step} → {step.table}"
                yield "    nothing has run yet"
            continue
        yield f"  {step.step} → {step.table}"
        for _, same in groupby(step.partitions, key=_alike):
            yield f"    {_group(list(same))}"


def _counts(found: PipelineStatus, *, only_stale: bool) -> str:
    counted = ", ".join(f"{count} {state}" for state, count in found.counts.items()) or "nothing to show"
    kinds = {kind: sum(step.stale.get(kind, 0) for step in found.steps) for kind in ("data", "code")}
    apart = ", ".join(f"{count} by {kind}" for kind, count in kinds.items() if count) if only_stale else ""
    return f"{counted} ({apart})" if apart else counted


def _alike(partition: PartitionStatus) -> object:
    if not partition.reasons and not partition.ignored and not partition.accepted:
        return partition.scope.dimensions, partition.state, partition.open
    reasons, ignored = (
        tuple((reason.kind, reason.subject) for reason in each) for each in (partition.reasons, partition.ignored)
    )
    accepted = tuple((each["gate"], each["because"]) for each in partition.accepted)
    return partition.scope.dimensions, partition.state, partition.open, reasons, ignored, accepted


def _group(same: Sequence[PartitionStatus]) -> str:
    first, last = same[0], same[-1]
    span = first.name
    if len(same) > 1:
        dimensions = "".join(f" {name}={value}" for name, value in first.scope.dimensions)
        span = f"{first.name.removesuffix(dimensions)} … {last.name} ({len(same)})"
    text = f"{span}  {first.state}" + (", open" if first.open else "")
    if why := _together([partition.reasons for partition in same]):
        text += f": {why}"
    if left := _together([partition.ignored for partition in same]):
        text += f"; late and left out: {left}"
    for each in first.accepted:
        text += f"; gate accepted: {each['gate']}, because {each['because']}"
    return text


def _together(all_reasons: Sequence[Sequence[Reason]]) -> str:
    """Return the reasons of partitions that are alike: what they share once, the partitions of an input as a span."""
    texts = []
    for reasons in zip(*all_reasons, strict=True):
        first = reasons[0]
        labels = sorted({label for reason in reasons for label in reason.partitions})
        if len(reasons) == 1 or not labels:
            texts.append(first.text)
            continue
        rows = [reason.rows for reason in reasons if reason.rows is not None]
        texts.append(first.over(labels, sum(rows) if len(rows) == len(reasons) else None).text)
    return "; ".join(texts)


def _coloured(text: str) -> str:
    if not is_terminal():
        return text
    colours = {"done": "green", "stale": "yellow", "missing": "yellow", "failed": "red", "running": "cyan"}
    for state, colour in colours.items():
        head, found, tail = text.partition(f"  {state}")
        if found and head.startswith("    "):
            return f"{head}  {click.style(state, fg=colour)}{tail}"
    return text
