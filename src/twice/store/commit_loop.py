"""Trying a commit again after another one came first."""

from __future__ import annotations

import time
from collections.abc import Iterator

_ATTEMPTS = 12
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


def attempts(
    count: int = _ATTEMPTS, *, first_pause: float = _FIRST_PAUSE, longest_pause: float = _LONGEST_PAUSE
) -> Iterator[bool]:
    """Yield once per attempt, whether it is the last one; the pause before the next doubles up to the longest."""
    for number in range(count):
        last = number == count - 1
        yield last
        if not last:
            time.sleep(min(first_pause * 2**number, longest_pause))
