"""The progress of a verification, on standard error: a live table for a terminal, else one line per check."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from twice.cli.logs import log_line, without_passwords
from twice.cli.output import STYLES

if TYPE_CHECKING:
    from twice.cli.settings import Settings
    from twice.verify.trial import Outcome


class Watcher:
    """Follows a verification; this one shows nothing."""

    def report(self, text: str) -> None:
        """Handle the start of a phase, or of a check, by its name."""

    def seen(self, outcome: Outcome) -> None:
        """Handle the outcome of a check."""


@contextmanager
def watching(settings: Settings, checks: Sequence[str]) -> Iterator[Watcher]:
    """Yield the watcher that suits standard error: a terminal, a file or JSON lines."""
    if settings.json_logs:
        yield JsonLines(checks)
    elif settings.verbosity < 0:
        yield Watcher()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        board = Board(checks)
        with Live(get_renderable=board.draw, console=Console(stderr=True), refresh_per_second=4, transient=True):
            yield board
    else:
        yield Lines(checks, brief=settings.verbosity == 0)


class Lines(Watcher):
    """One line for each phase, and for each check when it has ended."""

    def __init__(self, checks: Sequence[str], *, brief: bool = True) -> None:
        self._checks = checks
        self._brief = brief

    def report(self, text: str) -> None:
        """Write a phase."""
        if text not in self._checks or not self._brief:
            click.echo(without_passwords(text), err=True)

    def seen(self, outcome: Outcome) -> None:
        """Write how a check ended."""
        from twice.verify.report.texts import plain

        click.echo(f"{outcome.check}  {outcome.status}  {outcome.seconds:.1f} s  {plain(outcome.summary)}", err=True)


class JsonLines(Watcher):
    """One JSON object for each phase and each check."""

    def __init__(self, checks: Sequence[str]) -> None:
        self._checks = checks

    def report(self, text: str) -> None:
        """Write the phase that starts."""
        log_line({"state": "checking", "check": text} if text in self._checks else {"state": text})

    def seen(self, outcome: Outcome) -> None:
        """Write how a check ended."""
        log_line({"state": outcome.status, "check": outcome.check, "detail": outcome.summary,
                  "data": {"seconds": round(outcome.seconds, 2)}})  # fmt: skip


class Board(Watcher):
    """The live table: one row per check."""

    def __init__(self, checks: Sequence[str]) -> None:
        self._checks = list(checks)
        self._doing = "starting Spark"
        self._started = time.monotonic()
        self._outcomes: dict[str, Outcome] = {}

    def report(self, text: str) -> None:
        """Handle the start of a phase."""
        self._doing, self._started = text, time.monotonic()

    def seen(self, outcome: Outcome) -> None:
        """Handle the end of a check."""
        self._outcomes[outcome.check] = outcome

    def draw(self) -> Any:
        """Draw the table as it is now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        since = time.monotonic() - self._started
        table = Table("check", "status", "seconds", box=None)
        for name in self._checks:
            outcome = self._outcomes.get(name)
            running = outcome is None and name == self._doing
            status = outcome.status if outcome else "running" if running else ""
            took = f"{outcome.seconds:.1f}" if outcome else f"{since:.1f}" if running else ""
            table.add_row(Text(name), Text(status, style=STYLES.get(status, "")), took)
        title = f"{len(self._outcomes)} of {len(self._checks)} checks"
        if self._doing not in self._checks:
            title = f"{self._doing} … {since:.0f} s"
        return Group(Text(without_passwords(title)), table)
