"""`twice backfill list|show|watch|pause|cancel|set`: look at backfills and steer them through the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, moment, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.ledger import BackfillInfo, Ledger, Shadow


@click.command("list", short_help="List the newest backfills.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="How many.")
@json_option
@pass_settings
def list_(settings: Settings, limit: int, as_json: bool) -> None:
    """List the newest backfills, and how far they are."""
    ledger = settings.ledger_if_any()
    found = ledger.backfills.list(limit=limit) if ledger else []
    if as_json:
        print_json([info.to_json() for info in found])
    elif not found:
        print_text("no backfills yet")
    else:
        rows = [
            [info.id, info.pipeline, info.scope, _status(info), _far(info), moment(info.started_at)] for info in found
        ]
        print_table(["backfill", "pipeline", "scope", "status", "partitions", "started"], rows)


@click.command(short_help="Show a backfill in full.")
@click.argument("backfill_id", metavar="ID")
@json_option
@pass_settings
def show(settings: Settings, backfill_id: str, as_json: bool) -> None:
    """Show one backfill in full: its steps, how each was cut and why, what failed.

    A unique prefix of its id is enough.
    """
    ledger, info = find(settings, backfill_id)
    chunks = ledger.backfills.chunks.list(info.id)
    if as_json:
        print_json(info.to_json() | {"chunks": [chunk.to_json() for chunk in chunks]})
        return
    for line in _lines(info):
        print_text(line)
    for chunk in chunks:
        if chunk.state in ("failed", "blocked"):
            print_text(f"  {chunk.state}: {chunk.step} {chunk.scope}: {chunk.error.splitlines()[0]}")
        for name, reason in chunk.refused.items():
            print_text(f"  refused: {chunk.step} {name}: {reason.splitlines()[0]}")


@click.command(short_help="Follow a backfill until it ends.")
@click.argument("backfill_id", metavar="ID")
@json_option
@pass_settings
def watch(settings: Settings, backfill_id: str, as_json: bool) -> None:
    """Follow a backfill from anywhere until it ends: a bar on a terminal, else a line whenever something changed.

    With --json each line is one JSON object.
    """
    from twice.cli.watching import Watch

    ledger, info = find(settings, backfill_id)
    Watch(ledger, info.id).until_the_end(as_json=as_json)


@click.command(short_help="Start no further chunk.")
@click.argument("backfill_id", metavar="ID")
@json_option
@pass_settings
def pause(settings: Settings, backfill_id: str, as_json: bool) -> None:
    """Start no further chunk; running chunks finish. `resume` continues."""
    ledger, info = find(settings, backfill_id)
    ledger.backfills.pause(info.id)
    _report(ledger, info.id, f"backfill {info.id} is paused; next: twice backfill resume {info.id}", as_json=as_json)


@click.command(short_help="End a backfill for good.")
@click.argument("backfill_id", metavar="ID")
@json_option
@pass_settings
def cancel(settings: Settings, backfill_id: str, as_json: bool) -> None:
    """End a backfill: running Spark jobs are cancelled, what is done stays done."""
    ledger, info = find(settings, backfill_id)
    ledger.backfills.cancel(info.id)
    _report(ledger, info.id, f"backfill {info.id} is cancelled; what is done stays done", as_json=as_json)


@click.command("set", short_help="Change the parallelism.")
@click.argument("backfill_id", metavar="ID")
@click.option("--parallel", type=int, required=True, metavar="N", help="Chunks at once, in all processes.")
@json_option
@pass_settings
def set_(settings: Settings, backfill_id: str, parallel: int, as_json: bool) -> None:
    """Change how many chunks run at once, while it runs."""
    ledger, info = find(settings, backfill_id)
    ledger.backfills.set_parallel(info.id, parallel)
    _report(ledger, info.id, f"backfill {info.id} runs {parallel} chunks at once from now on", as_json=as_json)


def find(settings: Settings, backfill_id: str) -> tuple[Ledger, BackfillInfo]:
    """Find a backfill by the beginning of its id; where nothing has run yet, there is none."""
    ledger = settings.ledger_if_any()
    if ledger is None:
        raise UsageError(f"no backfill begins with {backfill_id!r}: nothing has run yet")
    return ledger, ledger.backfills.get(backfill_id)


def _report(ledger: Ledger, backfill_id: str, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(ledger.backfills.get(backfill_id).to_json())
    else:
        print_text(text)


def _status(info: BackfillInfo) -> str:
    return f"{info.status}, shadow {info.shadow.state}" if info.shadow else info.status


def _far(info: BackfillInfo) -> str:
    failed = info.count("failed") + info.count("blocked")
    more = f", {failed} failed" if failed else ""
    running = f", {info.count('running')} running" if info.count("running") else ""
    return f"{info.count('done')} of {info.partitions}{running}{more}"


def _shadow_lines(shadow: Shadow) -> Iterator[str]:
    yield f"  shadow    {shadow.state}"
    for table, name in shadow.tables.items():
        seen = "shows the new rows" if table in shadow.swapped else f"as before; new rows in {name}"
        gone = shadow.removed and table not in shadow.swapped
        yield f"    {table}: {'as before' if gone else seen}"


def _lines(info: BackfillInfo) -> Iterator[str]:
    yield f"backfill {info.id}: {info.status}"
    yield f"  pipeline  {info.pipeline}"
    yield f"  scope     {info.scope}"
    yield f"  started   {moment(info.started_at)}"
    if info.finished_at:
        yield f"  finished  {moment(info.finished_at)}"
    for worker in info.workers:
        yield f"  worker    {worker}"
    yield f"  parallel  {info.parallel}"
    if info.command:
        yield f"  command   {info.command}"
    if info.shadow:
        yield from _shadow_lines(info.shadow)
    known = {tally.step: tally for tally in info.tallies}
    for step in info.plan:
        tally = known.get(str(step["step"]))
        far = f"{tally.done} of {tally.total} partitions, {tally.rows} rows" if tally else "nothing to do"
        yield f"  {step['step']} → {step['table']}: {far}"
        yield f"    {step['why']}"
    for name, count in info.to_come.items():
        yield f"  {name}: 0 of {count} partitions, not started yet"
