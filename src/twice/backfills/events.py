"""What a backfill reports while it works."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from twice.ledger import Tally

Kind = Literal[
    "started", "laid out", "chunk started", "done", "failed", "split", "waiting", "recut", "paused", "continuing",
    "stopping", "tick", "finished",
]  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """The progress of a backfill: partitions by state, rate, and estimated time left."""

    done: int
    running: int
    failed: int
    total: int
    seconds: float
    rate: float
    left: float | None

    @property
    def text(self) -> str:
        """The progress in a few words."""
        parts = [f"{self.done} of {self.total} partitions"]
        if self.running:
            parts.append(f"{self.running} running")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.rate:
            parts.append(f"{self.rate * 60:.0f} per minute")
        if self.left is not None and self.done + self.failed < self.total:
            parts.append(f"{clock(self.left)} left")
        return ", ".join(parts)

    def to_json(self) -> dict[str, object]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class BackfillEvent:
    """One thing that happened to a backfill."""

    kind: Kind
    backfill: str
    step: str = ""
    span: str = ""
    text: str = ""
    progress: Progress | None = None
    data: Mapping[str, object] = field(default_factory=dict)


Report = Callable[[BackfillEvent], None]


class Meter:
    """Measures a backfill from the moment this process started to follow it."""

    def __init__(self, expected: Mapping[str, int] | None = None) -> None:
        self._expected = dict(expected or {})
        self._started = time.monotonic()
        self._before: int | None = None

    def expect(self, expected: Mapping[str, int]) -> None:
        """Set how many partitions the steps have to build, from now on."""
        self._expected |= expected

    def to_come(self, steps: Sequence[str]) -> dict[str, int]:
        """Return what is expected of some steps."""
        return {step: self._expected[step] for step in steps if step in self._expected}

    def read(self, tallies: Sequence[Tally]) -> Progress:
        """Report the progress; steps that have not started count as planned."""
        known = {tally.step: tally for tally in tallies}
        done = sum(tally.done for tally in tallies)
        failed = sum(tally.failed + tally.blocked for tally in tallies)
        total = sum(known[step].total if step in known else count for step, count in self._expected.items())
        total += sum(tally.total for step, tally in known.items() if step not in self._expected)
        if self._before is None:
            self._before = done
        seconds = time.monotonic() - self._started
        made = done - self._before
        rate = made / seconds if seconds > 0 else 0.0
        left = (total - done - failed) / rate if rate else None
        running = sum(tally.running for tally in tallies)
        return Progress(done, running, failed, total, seconds, rate, left)


def clock(seconds: float) -> str:
    """Format a duration.

    >>> clock(3), clock(190), clock(7_300)
    ('3 s', '3 min', '2.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.1f} h"
