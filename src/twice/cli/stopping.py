"""Ctrl-C for commands that run until they are stopped: they end between two pieces of work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets; a second signal interrupts at once."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
