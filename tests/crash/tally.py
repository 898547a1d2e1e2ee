"""What the crash matrix adds up: every case, and what a kill cost anybody."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

REPORT = "TWICE_CRASH_REPORT"


@dataclass
class Case:
    """One kill, and what was found after the rerun."""

    store: str
    point: str
    lost: int = 0
    doubled: int = 0
    bad_reads: int = 0

    def compare(self, found: Iterable[object], clean: Iterable[object]) -> None:
        """Count the rows that a clean run has and this one does not, and the other way round."""
        have, want = Counter(map(str, found)), Counter(map(str, clean))
        self.lost, self.doubled = (want - have).total(), (have - want).total()


KILLS: list[Case] = []
OUTCOMES: dict[str, bool] = {}
SYSTEM_CALLS: set[tuple[str, int]] = set()


@contextmanager
def kill(store: str, point: str) -> Iterator[Case]:
    """Keep a kill in the books, however its test ends."""
    case = Case(store, point)
    KILLS.append(case)
    yield case


def system_call(store: str, number: int) -> None:
    """Keep a kill at the n-th system call in the books."""
    SYSTEM_CALLS.add((store, number))


def line() -> str:
    """Add it all up, as one line of JSON."""
    points = {(case.store, case.point) for case in KILLS} | SYSTEM_CALLS
    return json.dumps(
        {
            "points": len(points),
            "stores": len({store for store, _ in points}),
            "cases": len(OUTCOMES),
            "survived": sum(OUTCOMES.values()),
            "lost": sum(case.lost for case in KILLS),
            "doubled": sum(case.doubled for case in KILLS),
            "bad_reads": sum(case.bad_reads for case in KILLS),
        }
    )
