"""`twice effects`: which calls to the outside world were made, and how to settle unknown outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from twice.cli.options import pairs, units
from twice.cli.output import json_option, moment, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError
from twice.ledger import CONFIRMED, FAILED, STATES
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.effects.paying import EffectResult
    from twice.ledger import EffectRecord, Ledger
    from twice.model.pipelines import Pipeline

_SHOWN = 500


@click.group(short_help="Calls to the outside world: sent, owed, unknown.")
def effects() -> None:
    """List, show, resolve and send the effects of pipelines and of `once`.

    \b
    twice effects list --attention
    twice effects send shop --for 2026-04-25
    """


@effects.command("list")
@click.argument("pipeline", required=False)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES), help="Only this state; may be given several times."
)
@click.option("--effect", metavar="NAME", help="Only this effect.")
@click.option("--for", "for_", metavar="X", help="Only the scopes of this unit; needs PIPELINE.")
@click.option("--attention", is_flag=True, help="Only what a person has to look at: unknown, dead, outdated.")
@json_option
@pass_settings
def list_(
    settings: Settings,
    pipeline: str | None,
    states: tuple[str, ...],
    effect: str | None,
    for_: str | None,
    attention: bool,
    as_json: bool,
) -> None:
    """List effects, the latest change first.

    \b
    twice effects list --attention
    twice effects list shop --for 2026-04-25 --state unknown
    """
    found = find_pipeline(settings.config, pipeline) if pipeline else None
    if for_ and found is None:
        raise UsageError(
            "--for needs PIPELINE: a date is read by its grain", next_step=f"twice effects list P --for {for_}"
        )
    window = units(found, for_, None, None)[0] if found and for_ else None
    ledger = settings.ledger_if_any()
    name = found.name if found else None
    records = (
        ledger.effects.list(states=states, pipeline=name, effect=effect, window=window, attention=attention)
        if ledger
        else []
    )
    if as_json:
        print_json([record.to_json() for record in records])
    elif not records:
        print_text("no effects")
    else:
        print_table(
            ["key", "effect", "about", "generation", "state", "attempts", "changed", "remark"],
            [_row(record) for record in records[:_SHOWN]],
        )
        if len(records) > _SHOWN:
            print_text(f"… and {len(records) - _SHOWN} more: --json lists all of them")


def _row(record: EffectRecord) -> list[object]:
    subject = record.subject
    remark = "outdated" if record.outdated else record.note or record.error
    return [
        record.key[:12],
        f"{subject.pipeline}.{subject.effect}" if subject.pipeline else subject.effect,
        subject.business_key or str(subject.scope),
        record.generation,
        record.state,
        record.attempts,
        moment(record.changed_at),
        remark.splitlines()[0][:80] if remark else "",
    ]


@effects.command(short_help="Show one effect in full.")
@click.argument("key")
@json_option
@pass_settings
def show(settings: Settings, key: str, as_json: bool) -> None:
    """Show an effect with all its generations: what was sent, what was answered. A unique prefix of KEY is enough."""
    records = _ledger(settings).effects.generations(key)
    if as_json:
        print_json([record.to_json() for record in records])
        return
    for record in records:
        for name, value in record.to_json().items():
            if value not in (None, "", {}):
                print_text(f"{name}: {value}")
        print_text("")


@effects.command(short_help="Record the outcome of an unknown effect.")
@click.argument("key")
@click.option("--sent", "state", flag_value=CONFIRMED, help="The receiver has it.")
@click.option("--not-sent", "state", flag_value=FAILED, help="The receiver did not get it: the next run sends it.")
@click.option("--because", required=True, metavar="TEXT", help="How you know; recorded with the effect.")
@json_option
@pass_settings
def resolve(settings: Settings, key: str, state: str | None, because: str, as_json: bool) -> None:
    """Record what became of an effect whose outcome is unknown, or whose attempts are used up.

    --sent for an outdated message lets it stay as it was sent.

    \b
    twice effects resolve 3f9a61c2 --sent --because "it is in the channel"
    """
    if state is None:
        raise UsageError("give --sent or --not-sent", unchanged="nothing was changed")
    record = _ledger(settings).effects.resolve(key, state, because)
    if as_json:
        print_json(record.to_json())
    else:
        print_text(f"{record.subject}: {record.state}")


@effects.command(short_help="Send what was suppressed, has failed or is dead.")
@click.argument("pipeline")
@click.option("--for", "for_", required=True, metavar="X", help="The unit whose effects are sent, such as 2026-04-25.")
@click.option("--effect", "names", multiple=True, metavar="NAME", help="Only this effect; may be given several times.")
@click.option(
    "--key", "keys", multiple=True, metavar="VALUE", help="Only this business key; may be given several times."
)
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Fix a dimension: --set tenant=acme.")
@click.option("--again", is_flag=True, help="Also send what was already sent, as a new generation with a new key.")
@json_option
@pass_settings
def send(
    settings: Settings,
    pipeline: str,
    for_: str,
    names: tuple[str, ...],
    keys: tuple[str, ...],
    sets: tuple[str, ...],
    again: bool,
    as_json: bool,
) -> None:
    """Send what was suppressed by a backfill, has failed or is dead; what was sent stays sent, unless --again.

    \b
    twice effects send shop --for 2026-04-25
    twice effects send shop --for 2026-04-25 --effect post_revenue --again
    """
    from twice.engine.operations.recorded_run import recorded_run
    from twice.engine.plan import plan

    found = find_pipeline(settings.config, pipeline)
    _check_names(found, names)
    window, dimensions = units(found, for_, None, None)[0], pairs(sets, "--set")
    planned_steps = [
        planned for planned in plan(found, window, dimensions=dimensions) if found.effects_after(planned.step.writes)
    ]
    results: list[EffectResult] = []
    with settings.runtime() as shop:
        from twice.effects.paying import pay

        with recorded_run(shop.ledger, found.name, planned_steps[0].scope, command=settings.command) as run:
            for planned in planned_steps:
                results += pay(shop, found, planned, run, mode="again" if again else "send", names=names, keys=keys)
            for error in (error for result in results for error in result.errors):
                raise error
            if not any(result.states for result in results):
                raise UsageError(
                    f"{found.name} has nothing to send for {for_}: nothing of it is published, or no key matches",
                    unchanged="nothing was sent",
                )
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        for result in results:
            print_text(f"{result.effect} {result.scope}: {result.text}")


def _check_names(pipeline: Pipeline, names: Sequence[str]) -> None:
    if not pipeline.effects:
        raise UsageError(f"pipeline {pipeline.name} has no effects", unchanged="nothing was sent")
    if unknown := [name for name in names if name not in pipeline.effects]:
        raise UsageError(
            f"pipeline {pipeline.name} has no effect {unknown[0]!r}; its effects are: {', '.join(pipeline.effects)}",
            unchanged="nothing was sent",
        )


def _ledger(settings: Settings) -> Ledger:
    ledger = settings.ledger_if_any()
    if ledger is None:
        raise UsageError("there are no effects: nothing has run yet", next_step="twice status")
    return ledger
