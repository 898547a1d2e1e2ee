"""A moved Python clock, for the user's code alone: ledgers, leases and heartbeats keep theirs."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager

LIBRARY = "time_machine"


def can_move() -> bool:
    """Return whether the library that moves clocks is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


@contextmanager
def moved_clock(seconds: float) -> Iterator[None]:
    """Let Python's clock be ahead while the block runs; it keeps ticking."""
    if not seconds:
        yield
        return
    import time_machine

    with time_machine.travel(time.time() + seconds, tick=True):
        yield
