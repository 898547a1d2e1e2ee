"""`twice ledger`: keep the record small, keep a copy, and move it to another database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from twice.cli.options import span
from twice.cli.output import json_option, print_json, print_text
from twice.cli.settings import Settings, pass_settings

if TYPE_CHECKING:
    from twice.ledger import Progress


@click.group()
def ledger() -> None:
    """Manage the ledger, the record of runs."""


@ledger.command()
@click.option("--keep", required=True, metavar="SPAN", help="How far back the history stays, such as 400d.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@json_option
@pass_settings
def prune(settings: Settings, keep: str, dry_run: bool, as_json: bool) -> None:
    """Remove runs and superseded outputs that are older than SPAN.

    What the tables hold now, open leases and the highest tokens always stay.

    \b
    twice ledger prune --keep 400d --dry-run
    """
    kept = span(keep, "--keep")
    report = settings.ledger().admin.prune(kept, dry_run=dry_run)
    if as_json:
        print_json(report.to_json())
        return
    would = "would remove" if report.dry_run else "removed"
    print_text(
        f"{would} {report.runs} runs, {report.attempts} attempts, {report.outputs} superseded outputs, "
        f"{report.claims} ended claims, {report.inputs} unused lists of inputs and {report.effects} effects of "
        f"partitions that are gone, from before {report.before:%Y-%m-%d}; key and state of {report.tombstones} "
        "effects of partitions that are there are kept"
    )


@ledger.command(short_help="Copy a ledger that is a file.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@pass_settings
def backup(settings: Settings, file: Path, as_json: bool) -> None:
    """Write a consistent copy of the ledger to FILE, which must not exist; runs may continue meanwhile.

    For a ledger in a file. One in Postgres is backed up with pg_dump, like any database.

    \b
    twice ledger backup backups/ledger-2026-04-25.db
    """
    settings.ledger().admin.backup(file)
    if as_json:
        print_json({"file": str(file.absolute()), "bytes": file.stat().st_size})
    else:
        print_text(f"wrote {file}")


@ledger.command(short_help="Create the ledger's tables, or migrate them.")
@click.option("--check", is_flag=True, help="Only check whether the tables are up to date; exit 1 if they are not.")
@json_option
@pass_settings
def migrate(settings: Settings, check: bool, as_json: bool) -> None:
    """Create the ledger's tables, or migrate them to the schema of this version of twice.

    Every run migrates the ledger automatically. Use this command where runs have no right to change tables, or to
    check beforehand.

    \b
    twice ledger migrate --check
    """
    from twice.ledger import open_ledger, revision_at

    before = revision_at(settings.config.ledger)
    if not check and not before.up_to_date:
        open_ledger(settings.config.ledger)
    after = before if check else revision_at(settings.config.ledger)
    if as_json:
        print_json(after.to_json() | {"before": before.found})
    elif before.up_to_date:
        print_text(f"the ledger {after.url} is up to date ({after.newest})")
    elif check:
        state = f"is at {before.found}, not at {before.newest}" if before.found else "does not exist yet"
        print_text(f"the ledger {after.url} {state}; next: twice ledger migrate")
    elif before.found:
        print_text(f"migrated the ledger {after.url} from {before.found} to {after.found}")
    else:
        print_text(f"created the ledger {after.url} ({after.found})")
    if not after.up_to_date:
        raise click.exceptions.Exit(1)


@ledger.command("export", short_help="Write the ledger as JSON lines.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@pass_settings
def export_(settings: Settings, file: Path, as_json: bool) -> None:
    """Write the whole ledger to FILE, which must not exist, as JSON lines that `import` reads.

    Runs may continue meanwhile; what they record from then on is not in FILE. To move a ledger, stop them first.

    \b
    twice --profile dev ledger export ledger.jsonl
    """
    opened = settings.ledger()
    with _progress(settings, "writing") as progress:
        report = opened.admin.export_to(file, progress)
    live = sum(lease.state == "live" for lease in opened.leases.list())
    if as_json:
        print_json(report.to_json() | {"live_leases": live})
        return
    print_text(f"wrote {sum(report.rows.values())} rows to {file}")
    if live:
        print_text(f"{live} leases are live: if this is a move, stop their runs and export again")


@ledger.command("import", short_help="Read an export into an empty ledger.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@pass_settings
def import_(settings: Settings, file: Path, as_json: bool) -> None:
    """Read what `export` wrote into this ledger, which must be new or empty: all of it or nothing.

    Doing it twice is harmless: a ledger that already holds exactly this is left as it is.

    \b
    twice --profile prod ledger import ledger.jsonl
    """
    from twice.ledger import open_ledger

    opened = open_ledger(settings.config.ledger)
    with _progress(settings, "reading") as progress:
        report = opened.admin.import_from(file, progress)
    if as_json:
        print_json(report.to_json() | {"url": opened.url})
    elif report.changed:
        print_text(f"read {sum(report.rows.values())} rows from {file} into {opened.url}")
    else:
        print_text(f"{opened.url} already holds all of {file}; nothing was changed")


@contextmanager
def _progress(settings: Settings, verb: str) -> Iterator[Progress]:
    """Show the progress of a long command, if standard error is a terminal."""
    if settings.json_logs or settings.verbosity < 0 or not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{verb} rows", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
