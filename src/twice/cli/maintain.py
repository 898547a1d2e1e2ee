"""`twice maintain`: small files, old snapshots and leftovers."""

from __future__ import annotations

import click

from twice.cli.options import span
from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError
from twice.loading import find_pipeline, load_pipelines
from twice.model.names import TableName


@click.command(short_help="Clean up small files, old snapshots and leftovers.")
@click.argument("pipeline", required=False)
@click.option("--table", "tables", multiple=True, metavar="T", help="Only this table; may be given several times.")
@click.option("--keep", default="7d", show_default=True, metavar="SPAN",
              help="How long old versions stay readable; `twice undo` reaches no further back.")  # fmt: skip
@click.option("--no-compact", is_flag=True, help="Leave small files as they are.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@json_option
@pass_settings
def maintain(
    settings: Settings,
    pipeline: str | None,
    tables: tuple[str, ...],
    keep: str,
    no_compact: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Compact small files, expire old snapshots, drop what killed runs left behind.

    A rerun finds nothing changed. Tables that a run is writing to are left alone.

    \b
    twice maintain shop --keep 7d --dry-run
    """
    kept = span(keep, "--keep")
    config = settings.config
    found = [find_pipeline(config, pipeline)] if pipeline else list(load_pipelines(config).values())
    known = {table.name for each in found for table in each.written()}
    if not known:
        raise UsageError("no pipeline is named, so there are no tables", next_step="twice maintain module:object")
    wanted = [str(TableName.parse(table)) for table in tables]
    if strangers := [table for table in wanted if table not in known]:
        raise UsageError(f"no pipeline writes {', '.join(strangers)}; they write: {', '.join(sorted(known))}")
    with settings.runtime() as shop:
        from twice.engine.operations.maintain import maintain as work

        done = work(shop, found, keep=kept, tables=wanted or None, compact=not no_compact, dry_run=dry_run)
    if as_json:
        print_json([table.to_json() for table in done])
        return
    for table in done:
        print_text(table.text)
