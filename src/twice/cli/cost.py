"""`twice cost`: executor time and bytes, added up by pipeline, step, backfill or tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from twice.cli.options import span
from twice.cli.output import json_option, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError, did_you_mean
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.ledger import Cost, Ledger

_WORDS = ("backfill", "pipeline", "step")
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@click.command(short_help="Add up what runs cost.")
@click.argument("pipeline", required=False)
@click.option("--by", default="pipeline", show_default=True, metavar="WHAT",
              help="pipeline, step, backfill, or the name of a tag, such as project.")  # fmt: skip
@click.option("--since", metavar="SPAN", help="Only runs that began within this span, such as 7d or 12h.")
@json_option
@pass_settings
def cost(settings: Settings, pipeline: str | None, by: str, since: str | None, as_json: bool) -> None:
    """Add up what the runs of one PIPELINE, or of all, used of Spark: executor and CPU time, bytes.

    Every attempt counts, also one that failed. `--by NAME` adds up by the tag of that name, which
    `--tag NAME=VALUE` of a run or a backfill gave.

    \b
    twice cost --by project --since 7d
    """
    if not by.strip():
        raise UsageError("--by needs a value", next_step="--by pipeline, step, backfill, or the name of a tag")
    name = find_pipeline(settings.config, pipeline).name if pipeline else None
    within = span(since, "--since") if since else None
    ledger = settings.ledger_if_any()
    if ledger:
        _check(ledger, by.strip())
    found = ledger.runs.costs(by.strip(), since=within, pipeline=name) if ledger else []
    if as_json:
        print_json({"by": by.strip(), "since": since, "costs": [line.to_json() for line in found]})
    elif not found:
        print_text("no runs yet" if not since else f"no runs in the last {since}")
    else:
        columns = [by.strip(), "runs", "executor s", "cpu s", "read", "written", "shuffled"]
        print_table(columns, [_line(line) for line in found])
        if unmeasured := sum(line.unmeasured for line in found):
            count = f"{unmeasured} attempt{'' if unmeasured == 1 else 's'}"
            print_text(f"{count} used no Spark, or ended without reporting what was used")


def _check(ledger: Ledger, by: str) -> None:
    """Refuse a tag name that no run has; before the first run any name may become one."""
    if by in _WORDS or not ledger.attempts.any():
        return
    tags = ledger.runs.tag_names()
    if by not in tags:
        known = [*_WORDS, *(tag for tag in tags if tag not in _WORDS)]
        raise UsageError(f"no run has a tag {by!r}; --by takes: {', '.join(known)}{did_you_mean(by, known)}")


def _line(cost: Cost) -> list[object]:
    total = cost.total
    return [
        cost.name,
        cost.runs,
        f"{total['executor_seconds']:.1f}",
        f"{total['cpu_seconds']:.1f}",
        *(_size(total[name]) for name in ("bytes_read", "bytes_written", "bytes_shuffled")),
    ]


def _size(count: float) -> str:
    """Show a number of bytes with three digits at most."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("the last unit takes all")
