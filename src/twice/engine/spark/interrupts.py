"""Ctrl-C while Spark works.

A thread has one connection to the JVM. Interrupted in the middle of a call, that connection still
owes an answer: the next call over it gets the answer to the earlier one. So PySpark's own
handler, which does that, is set aside during a run, and cleaning up happens on a thread of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt and nothing else; a handler that is not PySpark's stays."""
    handler = signal.getsignal(signal.SIGINT)
    theirs = str(getattr(handler, "__module__", "")).startswith("pyspark")
    if not theirs or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def apart(*actions: Callable[[], None]) -> None:
    """Run actions one after the other on a separate thread, and wait for it."""

    def work() -> None:
        for action in actions:
            action()

    thread = threading.Thread(target=work, name="twice-interrupted")
    thread.start()
    thread.join()
