"""The progress of a run, on standard error: a live table for a terminal, else one line per change of state."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from twice.cli.logs import log_line, without_passwords
from twice.cli.output import STYLES

if TYPE_CHECKING:
    from twice.cli.settings import Settings
    from twice.engine.events import Event, Listener

_ENDS = ("published", "built", "unchanged", "fresh", "superseded", "skipped", "failed", "same", "differs", "cannot")
# Useful when debugging; noise otherwise.
_DETAILS = ("claimed", "pinning", "staged", "gated")
# How often Spark is asked for its tasks.
_LOOK_SECONDS = 1.0


@contextmanager
def progress(settings: Settings, steps: Sequence[str]) -> Iterator[Listener]:
    """Yield the listener that suits standard error: a terminal, a file or JSON lines."""
    if settings.json_logs:
        yield json_line
    elif settings.verbosity < 0:
        yield lambda _event: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        board = Board(steps, _spark_tasks)
        with Live(get_renderable=board.draw, console=Console(stderr=True), refresh_per_second=4):
            yield board.listen
    elif settings.verbosity > 0:
        yield text_line
    else:
        yield brief_line


def _spark_tasks() -> str:
    from twice.engine.spark.running_tasks import running_tasks

    found = running_tasks()
    return f"{found.done} of {found.all} Spark tasks" if found else ""


def json_line(event: Event) -> None:
    """Write an event as one JSON object."""
    fields = {"run": event.run, "pipeline": event.pipeline, "scope": event.scope, "step": event.step}
    log_line(fields | {"state": event.state, "detail": event.detail, "data": dict(event.data)})


def text_line(event: Event) -> None:
    """Write an event as one line of text."""
    click.echo(without_passwords(line(event)), err=True)


def brief_line(event: Event) -> None:
    """Write an event as one line of text, unless only a detail of the protocol changed."""
    if event.state not in _DETAILS:
        text_line(event)


def line(event: Event) -> str:
    """Show an event: run, pipeline and step, scope, state, numbers."""
    what = f"{event.pipeline}.{event.step}" if event.step else event.pipeline
    parts = [*([event.run] if event.run else []), what, event.scope, event.state]
    if "rows" in event.data:
        parts.append(f"{event.data['rows']} rows")
    if isinstance(seconds := event.data.get("seconds"), int | float):
        parts.append(f"{seconds:.1f} s")
    if event.detail:
        parts.append(event.detail.splitlines()[0])
    return "  ".join(parts)


@dataclass
class _Row:
    state: str = "waiting"
    rows: object = ""
    started: float | None = None
    seconds: float | None = None
    detail: str = ""


class Board:
    """The live table: one row per step."""

    def __init__(self, steps: Sequence[str], tasks: Callable[[], str] = str) -> None:
        self._steps = list(steps)
        self._title = ""
        self._rows: dict[str, _Row] = {}
        # How far Spark is with the step that is computing, and when it was asked.
        self._ask_tasks, self._tasks, self._asked = tasks, "", 0.0
        self._reset()

    def listen(self, event: Event) -> None:
        """Handle one event."""
        if not event.step:
            if event.state == "planned":
                self._title = f"{event.pipeline}  {event.scope}"
            elif event.state == "starting":  # before there is a run
                self._title = f"{event.pipeline}  {event.scope}  starting {event.detail} …"
            elif event.state == "started":
                self._reset()
                self._title = f"{event.pipeline}  {event.scope}  run {event.run}"
            elif event.state == "failed":
                self._end_running()
            return
        row = self._rows.setdefault(event.step, _Row())
        if event.state == "sending":  # the step itself has ended
            row.detail = event.detail
            return
        if row.started is None:
            row.started = time.monotonic()
        row.state, row.detail = event.state, (event.detail.splitlines() or [""])[0]
        row.rows = event.data.get("rows", row.rows)
        if event.state in _ENDS:
            row.seconds = time.monotonic() - row.started

    def draw(self) -> Any:
        """Draw the table as it is now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table("step", "state", "rows", "seconds", "", box=None)
        for name, row in self._rows.items():
            seconds = row.seconds
            if seconds is None and row.started is not None:
                seconds = time.monotonic() - row.started
            took = "" if seconds is None else f"{seconds:.1f}"
            state = Text(row.state, style=STYLES.get(row.state, ""))
            detail = self._tasks_now() if row.state == "computing" else row.detail
            table.add_row(Text(name), state, Text(str(row.rows)), took, Text(without_passwords(detail)))
        return Group(Text(self._title), table)

    def _tasks_now(self) -> str:
        if time.monotonic() > self._asked + _LOOK_SECONDS:
            self._tasks, self._asked = self._ask_tasks(), time.monotonic()
        return self._tasks

    def _reset(self) -> None:
        self._rows = {name: _Row() for name in self._steps}

    def _end_running(self) -> None:
        for row in self._rows.values():
            if row.started is not None and row.seconds is None:
                row.state, row.seconds = "failed", time.monotonic() - row.started
