"""`twice outbox`: send the messages that publishes left, and look at those that could not be sent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, moment, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.cli.stopping import stopping
from twice.errors import ConfigError, Interrupted, UsageError
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.effects.outbox.relay import Delivered, Relay

_SHOWN = 500


@click.group(short_help="Messages about changed rows: send, list, resolve.")
def outbox() -> None:
    """Relay the messages of tables that have an outbox, and look at those that could not be sent.

    \b
    twice outbox relay shop
    twice outbox list shop --state dead
    """


@outbox.command()
@click.argument("pipeline")
@click.option("--table", metavar="NAME", help="Only this table.")
@click.option("--drain", is_flag=True, help="End when nothing is due, instead of waiting for more.")
@json_option
@pass_settings
def relay(settings: Settings, pipeline: str, table: str | None, drain: bool, as_json: bool) -> int:
    """Send messages until Ctrl-C; any number of relays may run at once.

    With --drain the exit code is 1 if messages are left: dead ones, or some that wait for their next try. With --json
    every message is one line.

    \b
    twice outbox relay shop
    twice outbox relay shop --drain
    """
    from twice.effects.outbox.relay import run

    relays, sent = _relays(settings, pipeline, table), 0
    with stopping() as stop:
        for done in run(relays, drain=drain, stop=stop):
            sent += done.state == "sent"
            if as_json:
                print_json(_line(done), long=True)
            elif done.error or settings.verbosity > 0:
                error = f": {done.error.splitlines()[0]}" if done.error else ""
                print_text(f"{done.message.id[:12]} {done.message.table} {done.state}{error}")
    if stop.is_set():
        raise Interrupted(
            f"stopped after {sent} messages",
            unchanged="messages that were answered are recorded; the others stay in the outbox",
            next_step=f"twice outbox relay {pipeline}",
        )
    if drain:
        left: Counter[str] = sum((Counter(one.counts()) for one in relays if one.exists()), Counter())
        waiting = {state: left[state] for state in ("pending", "dead") if left[state]}
        if not as_json:
            rest = "".join(f", {count} {state}" for state, count in waiting.items())
            print_text(f"{sent} messages sent{rest}")
        return 1 if waiting else 0
    return 0


@outbox.command("list")
@click.argument("pipeline")
@click.option("--table", metavar="NAME", help="Only this table.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(["pending", "sent", "dead", "skipped"]),
    help="Only this state; may be given several times. By default pending and dead.",
)
@json_option
@pass_settings
def list_(settings: Settings, pipeline: str, table: str | None, states: tuple[str, ...], as_json: bool) -> int:
    """List messages, dead ones first, then the oldest. The exit code is 1 if there is a dead one.

    \b
    twice outbox list shop --state dead
    """
    wanted = states or ("pending", "dead")
    relays = [one for one in _relays(settings, pipeline, table) if one.exists()]
    found = [message for one in relays for message in one.messages(wanted, limit=None if as_json else _SHOWN + 1)]
    if as_json:
        print_json([message.to_json() for message in found])
    elif not found:
        print_text("no messages")
    else:
        rows = [
            [each.id[:12], each.table, each.key, each.change, each.state, each.attempts, moment(each.changed_at),
             each.error.splitlines()[0][:80] if each.error else each.note]
            for each in found[:_SHOWN]
        ]  # fmt: skip
        print_table(["id", "table", "key", "change", "state", "attempts", "changed", "remark"], rows)
        if len(found) > _SHOWN:
            print_text(f"the first {_SHOWN}: --json lists all of them")
    return 1 if any(one.counts().get("dead") for one in relays) else 0


@outbox.command()
@click.argument("pipeline")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--dead", is_flag=True, help="All dead messages, instead of one ID.")
@click.option("--table", metavar="NAME", help="Only this table.")
@click.option("--send", "send", flag_value=True, type=bool, default=None, help="Let the relay try again.")
@click.option("--skip", "send", flag_value=False, type=bool, help="Leave it unsent: later messages of its row go out.")
@click.option("--because", required=True, metavar="TEXT", help="Why; recorded with the message.")
@json_option
@pass_settings
def resolve(
    settings: Settings,
    pipeline: str,
    id_: str | None,
    dead: bool,
    table: str | None,
    send: bool | None,
    because: str,
    as_json: bool,
) -> None:
    """Let a dead message be sent again, or skip it. A unique prefix of ID is enough.

    \b
    twice outbox resolve shop 3f9a61c2 --send --because "the receiver is fixed"
    twice outbox resolve shop --dead --send --because "the token was renewed"
    """
    if send is None:
        raise UsageError("give --send or --skip", unchanged="nothing was changed")
    if bool(id_) == dead:
        raise UsageError("name one message by its ID, or all dead ones with --dead", unchanged="nothing was changed")
    states = ("dead",) if dead else ("pending", "dead")
    relays = [one for one in _relays(settings, pipeline, table) if one.exists()]
    found = [(one, message) for one in relays for message in one.messages(states, id_=id_ or "")]
    if not dead and len(found) != 1:
        many = f"{len(found)} messages have ids that begin" if found else "no unsent message has an id that begins"
        raise UsageError(
            f"{many} with {id_}", unchanged="nothing was changed", next_step=f"twice outbox list {pipeline}"
        )
    done = sum(
        one.resolve([message.id for its, message in found if its is one], send=send, note=because) for one in relays
    )
    state = "pending" if send else "skipped"
    if as_json:
        print_json({"state": state, "messages": done})
    else:
        print_text(f"{done} {state}")


def _relays(settings: Settings, name: str, table: str | None) -> list[Relay]:
    from twice.effects.outbox.relay import Relay
    from twice.store.sql.database import open_database

    pipeline = find_pipeline(settings.config, name)
    tables = {step.writes.name: step.writes for step in pipeline.steps.values() if step.writes.outbox is not None}
    if not tables:
        raise UsageError(f"no table of pipeline {name} has an outbox: declare Table(…, outbox=Outbox(to=…))")
    if table is not None and table not in tables:
        raise UsageError(f"{table} has no outbox in {name}; tables with one: {', '.join(tables)}")
    found = []
    for each in tables.values():
        if table in (None, each.name):
            if each.id.store not in settings.config.stores:
                raise ConfigError(f"{each.name}: twice.toml has no store {each.id.store}")
            found.append(Relay(open_database(settings.config.stores[each.id.store], settings.config.root), each))
    return found


def _line(done: Delivered) -> dict[str, object]:
    return {"id": done.message.id, "table": done.message.table, "state": done.state, "error": done.error}
