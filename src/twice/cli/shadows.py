"""`twice backfill diff|swap|drop`: look at what a shadow would change, put it in place, or remove it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from twice.cli.backfills import find
from twice.cli.output import json_option, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.backfills.shadows import ShadowOf, Swapped, TableDifference
    from twice.content.difference import Difference
    from twice.ledger import BackfillInfo


@click.command(short_help="Show what a shadow would change.")
@click.argument("backfill_id", metavar="ID")
@json_option
@pass_settings
def diff(settings: Settings, backfill_id: str, as_json: bool) -> None:
    """Compare the tables with their shadows, old against new, partition by partition.

    Shows the partitions that differ: rows, keys that are added, removed or changed, and the sums of numeric columns.

    \b
    twice backfill diff 06ksm4
    """
    from twice.backfills.shadows import require_comparable

    _, info = find(settings, backfill_id)
    require_comparable(info)
    with _shadow(settings, info) as shadow:
        found = list(shadow.diff())
    if as_json:
        print_json({"backfill": info.id, "tables": [table.to_json() for table in found]})
        return
    for table in found:
        _print(table)
    print_text(f"twice backfill swap {info.id} puts it in place; twice backfill drop {info.id} removes it")


@click.command(short_help="Put a shadow in place.")
@click.argument("backfill_id", metavar="ID")
@click.option("--force", is_flag=True, help="Also replace partitions that other runs published after the shadow began.")
@json_option
@pass_settings
def swap(settings: Settings, backfill_id: str, force: bool, as_json: bool) -> None:
    """Show a shadow's rows to readers: each table in one commit, after the tables that it is made from.

    A swap that was killed between two tables continues when it is called again; `twice backfill show` lists the
    tables that show the new rows.

    \b
    twice backfill swap 06ksm4
    """
    from twice.backfills.shadows import require_finished

    _, info = find(settings, backfill_id)
    require_finished(info)
    with _shadow(settings, info) as shadow:
        done = shadow.swap(force=force, report=lambda text: click.echo(text, err=True))
        removed = shadow.is_removed
    if as_json:
        tables = [each.to_json() for each in done]
        print_json({"backfill": info.id, "status": "swapped", "removed": removed, "tables": tables})
        return
    for each in done:
        print_text(_swapped(each))
    left = f"some cleanup is left: run twice backfill swap {info.id} again"
    left = "nothing is left of it elsewhere" if removed else left
    print_text(f"the shadow of backfill {info.id} is in place, and {left}")


@click.command(short_help="Remove a shadow.")
@click.argument("backfill_id", metavar="ID")
@click.option("--force", is_flag=True, help="Also drop a partly swapped shadow; swapped tables stay swapped.")
@json_option
@pass_settings
def drop(settings: Settings, backfill_id: str, force: bool, as_json: bool) -> None:
    """Remove a shadow and everything that it held; the tables stay as they are.

    \b
    twice backfill drop 06ksm4
    """
    from twice.backfills.shadows import require_droppable

    _, info = find(settings, backfill_id)
    require_droppable(info, force=force)
    with _shadow(settings, info) as shadow:
        shadow.drop(force=force)
    if as_json:
        print_json({"backfill": info.id, "status": "dropped"})
    else:
        print_text(f"the shadow of backfill {info.id} is gone")


@contextmanager
def _shadow(settings: Settings, info: BackfillInfo) -> Iterator[ShadowOf]:
    from twice.backfills.request import Request
    from twice.backfills.shadows import ShadowOf

    pipeline = find_pipeline(settings.config, Request.from_json(info.request).place)
    with settings.runtime() as runtime:
        yield ShadowOf(runtime, pipeline, info)


def _swapped(each: Swapped) -> str:
    if each.status == "superseded":
        return f"{each.table}: nothing to swap, it shows a later window than those of the backfill"
    return f"{each.table}: {each.status}, {each.rows} rows"


def _print(table: TableDifference) -> None:
    same = f"{table.same} partition{'s' if table.same != 1 else ''} as before"
    if not table.partitions:
        print_text(f"{table.table}: nothing differs, {same}")
        return
    print_text(f"{table.table}: {len(table.partitions)} differ, {same}")
    sums = list(dict.fromkeys(name for found in table.partitions.values() for name in found.sums))
    rows = [
        [name, _change(*found.rows), f"+{found.added}", f"-{found.removed}", f"~{found.changed}", *_sums(found, sums)]
        for name, found in table.partitions.items()
    ]
    print_table(["partition", "rows", "added", "removed", "changed", *(f"sum of {name}" for name in sums)], rows)


def _sums(found: Difference, names: list[str]) -> list[str]:
    return [_change(*found.sums[name]) if name in found.sums else "" for name in names]


def _change(old: object, new: object) -> str:
    return str(new) if old == new else f"{'-' if old is None else old} → {'-' if new is None else new}"
