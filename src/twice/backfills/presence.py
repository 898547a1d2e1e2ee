"""A worker's heartbeat: a process that works on a backfill reports it, whatever it does there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twice.engine.spark.interrupts import plain_interrupts
from twice.errors import Interrupted, LedgerError

if TYPE_CHECKING:
    from twice.engine.run import Runtime


@contextmanager
def worker_heartbeat(runtime: Runtime, backfill: str) -> Iterator[None]:
    """Send a heartbeat four times per lease while this process works on a backfill, until the block ends."""
    over, ttl = threading.Event(), runtime.lease

    def beat() -> None:
        while not over.wait(ttl.total_seconds() / 4):
            with contextlib.suppress(LedgerError):  # the next beat may get through
                runtime.ledger.backfills.beat(backfill, ttl)

    heart = threading.Thread(target=beat, name=f"twice-backfill-{backfill}", daemon=True)
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join(timeout=5)


@contextmanager
def beginning(runtime: Runtime, backfill: str) -> Iterator[None]:
    """Frame what comes before the first chunk: if it fails, the backfill is left, and can be resumed."""
    try:
        with plain_interrupts(), worker_heartbeat(runtime, backfill):
            yield
    except BaseException as error:
        with contextlib.suppress(LedgerError):  # then the missing heartbeat shows it
            runtime.ledger.backfills.leave(backfill, interrupted=True)
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(
                f"backfill {backfill} was interrupted before its first chunk",
                unchanged="nothing was changed that readers see",
                next_step=f"twice backfill resume {backfill}",
            ) from None
        raise
