"""`twice rebuild`: rebuild a merged table from its history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError
from twice.loading import load_pipelines
from twice.model.names import TableName

if TYPE_CHECKING:
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step


@click.command(short_help="Rebuild a merged table from its history.")
@click.argument("table")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be computed.")
@json_option
@pass_settings
def rebuild(settings: Settings, table: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Compute all windows that were merged into TABLE again, and put the result in its place.

    For tables with Merge() or InsertOnly(): what a corrected step no longer returns is gone
    afterwards. Readers see the old table until one commit puts the new one in its place.

    \b
    twice rebuild lake.core.dim_customer --dry-run
    """
    from twice.engine.operations.rebuilding import plan_rebuild
    from twice.engine.operations.rebuilding import rebuild as work

    pipeline, step = _producer(settings, table)
    plan = plan_rebuild(settings.ledger_if_any(), pipeline, step)
    if dry_run:
        labels = [pipeline.grain.label(window.start, pipeline.zone) for window in plan.windows]
        document = {"table": step.writes.name, "pipeline": pipeline.name, "step": step.name, "windows": labels}
        print_json(document) if as_json else print_text(f"would rebuild {plan.text}")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                f"rebuilding {step.writes.name} needs a confirmation",
                next_step=f"twice rebuild {step.writes.name} --yes",
            )
        click.confirm(f"Rebuild {plan.text}?", abort=True, err=True)
    with settings.runtime() as shop:
        result = work(shop, plan, command=settings.command)
    print_json(result.to_json()) if as_json else print_text(result.text)


def _producer(settings: Settings, table: str) -> tuple[Pipeline, Step]:
    wanted = TableName.parse(table)
    for pipeline in load_pipelines(settings.config).values():
        for step in pipeline.steps.values():
            if step.writes.id == wanted:
                return pipeline, step
    raise UsageError(
        f"no step of the configured pipelines writes {table}",
        next_step=f"add its pipeline to [pipelines] in {settings.config.source or 'twice.toml'}, or correct the name",
    )
