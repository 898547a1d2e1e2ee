"""`twice undo`: restore what a run replaced."""

from __future__ import annotations

import shlex
import sys

import click

from twice.api import run_to_undo
from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError


@click.command(short_help="Restore what a run replaced.")
@click.argument("run")
@click.option("--step", "steps", multiple=True, metavar="S", help="Only this step; may be given several times.")
@click.option("--table", "tables", multiple=True, metavar="T", help="Only this table; may be given several times.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be restored.")
@json_option
@pass_settings
def undo(
    settings: Settings,
    run: str,
    steps: tuple[str, ...],
    tables: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restore every scope that RUN published to what it held before, as a new publish.

    Nothing else changes. A scope that another run has replaced since is refused, and so is a table in
    a store that keeps no earlier versions: --table and --step undo the rest.

    \b
    twice undo 06ksm4 --dry-run
    twice undo 06ksm4 --table lake.core.facts
    """
    info, pipelines = run_to_undo(settings.config, settings.ledger_if_any(), run)
    if not yes and not dry_run:
        if not sys.stdin.isatty():
            raise UsageError(
                f"undoing run {info.id} ({info.pipeline} {info.scope}) needs a confirmation",
                next_step=shlex.join(["twice", *settings.arguments, "--yes"]),
            )
        click.confirm(f"Undo run {info.id} of {info.pipeline}, {info.scope}?", abort=True, err=True)
    with settings.runtime() as shop:
        from twice.engine.operations.undo import undo as work

        done = work(shop, pipelines, info.id, steps=steps, tables=tables, dry_run=dry_run)
    if as_json:
        print_json([result.to_json() for result in done])
        return
    for result in done:
        print_text(result.text)
