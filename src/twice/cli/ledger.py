"""`twice ledger`: keep the record small, and keep a copy."""

from __future__ import annotations

from pathlib import Path

import click

from twice.cli.options import span
from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, pass_settings


@click.group()
def ledger() -> None:
    """Look after the record of runs."""


@ledger.command()
@click.option("--keep", required=True, metavar="SPAN", help="How far back the history stays, such as 400d.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
@pass_settings
def prune(settings: Settings, keep: str, dry_run: bool, as_json: bool) -> None:
    """Remove runs and superseded outputs that are older than SPAN.

    What the tables hold now, open leases and the highest tokens always stay.

    \b
    twice ledger prune --keep 400d --dry-run
    """
    kept = span(keep, "--keep")
    report = settings.ledger().prune(kept, dry_run=dry_run)
    if as_json:
        print_json(report.to_json())
        return
    would = "would remove" if report.dry_run else "removed"
    print_text(
        f"{would} {report.runs} runs, {report.attempts} attempts, {report.outputs} superseded outputs, "
        f"{report.claims} ended claims and {report.inputs} unused lists of inputs from before {report.before:%Y-%m-%d}"
    )


@ledger.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@pass_settings
def backup(settings: Settings, file: Path, as_json: bool) -> None:
    """Write a consistent copy of the ledger to FILE, which must not exist; runs may go on meanwhile.

    \b
    twice ledger backup backups/ledger-2026-04-25.db
    """
    settings.ledger().backup(file)
    if as_json:
        print_json({"file": str(file.absolute()), "bytes": file.stat().st_size})
    else:
        print_text(f"wrote {file}")
