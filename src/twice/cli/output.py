"""Results on standard output: one JSON document, a table for a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from twice.cli.logs import without_passwords
from twice.cli.settings import is_terminal

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def print_json(value: object, *, long: bool = False) -> None:
    """Print a JSON document, which must be the only output; a long one without line breaks."""
    # Python's encoder is ten times slower where it has to indent.
    click.echo(without_passwords(json.dumps(value, indent=None if long else 2, ensure_ascii=False, default=str)))


def print_text(text: str) -> None:
    """Print text without the passwords that may be in it."""
    click.echo(without_passwords(text))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows: drawn for a terminal, else aligned plain lines without a frame."""
    texts = [[without_passwords(str(cell)) for cell in row] for row in rows]
    if is_terminal():
        _draw(columns, texts)
        return
    widths = [max(len(text) for text in column) for column in zip(columns, *texts, strict=True)]
    for row in (columns, *texts):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def moment(instant: datetime | None) -> str:
    """Show an instant to a human."""
    return instant.strftime("%Y-%m-%d %H:%M:%SZ") if instant else ""


def _draw(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table: Any = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in texts:
        table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in row))
    Console().print(table)


STYLES = {
    "done": "green",
    "published": "green",
    "built": "green",
    "unchanged": "green",
    "fresh": "green",
    "ok": "green",
    "same": "green",
    "differs": "red",
    "cannot": "yellow",
    "passed": "green",
    "failed": "red",
    "problem": "red",
    "lost": "red",
    "stale": "yellow",
    "missing": "yellow",
    "held": "yellow",
    "not run": "yellow",
    "interrupted": "yellow",
    "running": "cyan",
}
