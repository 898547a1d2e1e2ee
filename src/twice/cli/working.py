"""The progress of a backfill, on standard error: a bar for a terminal, else one line per change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from twice.cli.logs import log_line, without_passwords

if TYPE_CHECKING:
    from twice.backfills.events import BackfillEvent, Report
    from twice.cli.settings import Settings

# Useful when debugging; noise otherwise.
_DETAILS = ("chunk started", "tick", "waiting")


@contextmanager
def reporting(settings: Settings, *, as_json: bool = False) -> Iterator[Report]:
    """Yield the listener that suits standard error: a terminal, a file or JSON lines."""
    if settings.json_logs or (as_json and settings.verbosity >= 0):
        yield json_line
    elif settings.verbosity < 0:
        yield lambda _note: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        board = Board()
        with Live(get_renderable=board.draw, console=Console(stderr=True), refresh_per_second=4):
            yield board.listen
    else:
        quiet = () if settings.verbosity > 0 else _DETAILS
        yield lambda note: click.echo(without_passwords(line(note)), err=True) if note.kind not in quiet else None


def json_line(note: BackfillEvent) -> None:
    """Write an event as one JSON object."""
    if note.kind == "tick":
        return
    progress = note.progress.to_json() if note.progress else None
    fields = {"backfill": note.backfill, "state": note.kind, "step": note.step, "chunk": note.span}
    log_line(fields | {"detail": note.text, "progress": progress, "data": dict(note.data)})


def line(note: BackfillEvent) -> str:
    """Show an event as one line: backfill, step, partitions, what happened, the progress."""
    parts = [note.backfill, *(part for part in (note.step, note.span) if part), note.kind]
    if rows := note.data.get("rows"):
        parts.append(f"{rows} rows")
    if isinstance(seconds := note.data.get("seconds"), float) and seconds:
        parts.append(f"{seconds:.1f} s")
    if note.text:
        parts.append(note.text.splitlines()[0])
    if note.progress and note.kind in ("done", "failed", "finished"):
        parts.append(f"[{note.progress.text}]")
    return "  ".join(parts)


class Board:
    """The live view: a bar, the chunks at work, and the last messages."""

    def __init__(self) -> None:
        self._last: BackfillEvent | None = None
        self._progress: Any = None
        self._working: dict[tuple[str, str], None] = {}
        self._lines: list[str] = []

    def listen(self, note: BackfillEvent) -> None:
        """Handle one event."""
        self._last = note
        self._progress = note.progress or self._progress
        key = (note.step, note.span)
        if note.kind == "chunk started":
            self._working[key] = None
            return
        if note.span:
            self._working.pop(key, None)
        if note.kind not in _DETAILS:
            self._lines = [*self._lines[-4:], without_passwords(line(note))]

    def draw(self) -> Any:
        """Draw the view as it is now."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        found = self._progress
        parts: list[Any] = [Text(f"backfill {self._last.backfill}" if self._last else "starting Spark …")]
        if found is not None:
            parts += [ProgressBar(total=max(found.total, 1), completed=found.done + found.failed, width=60)]
            parts += [Text(found.text)]
        parts += [Text(f"  {step} {span}", style="cyan") for step, span in self._working]
        parts += [Text(line, style="dim") for line in self._lines]
        return Group(*parts)
