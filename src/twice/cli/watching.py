"""The progress of a backfill that other processes work on: on standard output, from the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twice.backfills.events import BackfillEvent, Meter, Progress
from twice.cli.output import print_text
from twice.cli.settings import is_terminal
from twice.cli.working import Board

if TYPE_CHECKING:
    from twice.ledger import BackfillInfo, Chunk, Ledger

_OVER = ("done", "partly", "cancelled", "interrupted", "lost")
_POLL = 1.0


class Watch:
    """Looks at a backfill once a second."""

    def __init__(self, ledger: Ledger, backfill: str) -> None:
        self._backfills, self._id = ledger.backfills, backfill
        self._meter = Meter()
        self._running: dict[int, Chunk] = {}

    def until_the_end(self, *, as_json: bool) -> None:
        """Show a bar on a terminal, else a line whenever something changed."""
        if as_json or not is_terminal():
            self._lines(as_json=as_json)
            return
        from rich.console import Console
        from rich.live import Live

        board = Board()
        with Live(get_renderable=board.draw, console=Console(), refresh_per_second=4, transient=True):
            for info, progress in self._looks():
                for note in self.changes(info, progress):
                    board.listen(note)
        print_text(_line(info, progress))

    def _lines(self, *, as_json: bool) -> None:
        before = None
        for info, progress in self._looks():
            seen = (info.status, progress.done, progress.running, progress.failed, progress.total)
            if seen != before:
                shown = json.dumps(info.to_json() | {"progress": progress.to_json()})
                print_text(shown if as_json else _line(info, progress))
                before = seen

    def _looks(self) -> Iterator[tuple[BackfillInfo, Progress]]:
        while True:
            info = self._backfills.get(self._id)
            yield info, self.read(info)
            if info.status in _OVER:
                return
            time.sleep(_POLL)

    def read(self, info: BackfillInfo) -> Progress:
        """Report the progress; steps that have not started count as planned."""
        for note in info.plan:
            self._meter.expect({str(note["step"]): int(note.get("partitions", 0)), **note.get("to_come", {})})
        return self._meter.read(info.tallies)

    def changes(self, info: BackfillInfo, progress: Progress) -> Iterator[BackfillEvent]:
        """Report which chunks started and which ended since the last poll."""
        running = {chunk.id: chunk for chunk in self._backfills.chunks.list(self._id, states=("running",))}
        gone = {number: chunk for number, chunk in self._running.items() if number not in running}
        ended = (
            {chunk.id: chunk for chunk in self._backfills.chunks.list(self._id, step_index=info.step_index)}
            if gone
            else {}
        )
        for number, chunk in gone.items():
            now = ended.get(number)
            data = {"rows": now.rows, "seconds": now.seconds} if now else {}
            kind = now.state if now and now.state in ("done", "failed") else "waiting"
            yield BackfillEvent(kind, self._id, chunk.step, str(chunk.scope), now.error if now else "", progress, data)  # type: ignore[arg-type]
        for number, chunk in running.items():
            if number not in self._running:
                yield BackfillEvent("chunk started", self._id, chunk.step, str(chunk.scope), progress=progress)
        self._running = running
        yield BackfillEvent("tick", self._id, text=info.status, progress=progress)


def _line(info: BackfillInfo, progress: Progress) -> str:
    return f"backfill {info.id} {info.status}: {progress.text}"
