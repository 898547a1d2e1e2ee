"""Named crash points of the publish protocol, for the tests that kill it.

`TWICE_FAILPOINT=publish.committed:kill` ends the process with SIGKILL at that point;
`raise` raises a `TransientError`, `pause` stops the process (SIGSTOP) until SIGCONT.
`TWICE_FAILPOINT_AT=2` acts at the second time the point is reached. Without the variable a
point costs one dictionary look-up. Every name is in `FAIL_POINTS`, and a test fails if
one of them has no crash test. `watched` shows which points a run of this process reaches.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twice.errors import TransientError

FAIL_POINTS = {
    "claim.leased": "the ledger holds the lease; the table has no branch yet",
    "claim.fenced": "the branch exists; nothing is staged",
    "recover.dropped": "an abandoned attempt's branch is gone; the ledger does not know yet",
    "stage.written": "rows are staged on the branch; no gate has checked them",
    "gate.passed": "the staged rows passed every gate; nothing is published",
    "sql.loaded": "a batch of rows is in the staging table of a database; its transaction is not committed",
    "sql.deleted": "inside a database's publish transaction the old rows are gone and the new ones are not there",
    "delta.ready": "a Delta table's commit is prepared; its log has not been asked",
    "publish.ready": "the commit is prepared; the catalog has not been asked",
    "publish.committed": "the table has the new version; the ledger does not know yet",
    "shadow.forked": "a shadow holds what its table does; the ledger does not know yet what that is",
    "swap.table": "one table shows its shadow's rows; the others of the backfill may not",
    "record.written": "the ledger has the outputs; the run is not marked as done",
    "effect.claimed": "the ledger has the intents of a batch; nothing was called",
    "effect.answered": "the calls of a batch were answered; the ledger does not know yet",
    "effect.recorded": "the ledger has the outcomes of a batch",
    "outbox.locked": "a relay holds some messages; nothing was sent",
    "stream.noted": "the ledger knows that a batch is in its table; Spark does not yet",
    "outbox.sent": "the messages were answered; the outbox does not know yet",
    "parquet.ready": "everything that is to move is on the disk; the log does not know yet",
    "parquet.journalled": "the log has decided the publish; no folder has moved",
    "parquet.moved_aside": "an old partition is out of its place; the new one is not in it",
    "parquet.moved_in": "a new partition is in its place; others may not be",
    "parquet.swapped": "every partition is in its place; what was replaced is not removed",
}

_ACTIONS = ("kill", "raise", "pause")
_reached: dict[str, int] = {}
_watchers: tuple[Callable[[str], None], ...] = ()


def reset() -> None:
    """Count from the beginning how often each point is reached."""
    _reached.clear()


@contextmanager
def watched(watcher: Callable[[str], None]) -> Iterator[None]:
    """Call the watcher with the name of every point that is reached, by whichever thread, before the point acts."""
    global _watchers  # noqa: PLW0603 - points are all over the package, and share one list of watchers
    _watchers = (*_watchers, watcher)
    try:
        yield
    finally:
        _watchers = tuple(each for each in _watchers if each is not watcher)


def fail_point(name: str) -> None:
    """Act as `TWICE_FAILPOINT` says if it names this point."""
    for watcher in _watchers:
        watcher(name)
    setting = os.environ.get("TWICE_FAILPOINT")
    if not setting:
        return
    if name not in FAIL_POINTS:
        raise AssertionError(f"unregistered fail point {name!r}")
    point, _, action = setting.partition(":")
    # A typing error in the setting would make a crash test pass without a crash.
    if point not in FAIL_POINTS or action not in _ACTIONS:
        raise AssertionError(f"TWICE_FAILPOINT={setting}: write NAME:{'|'.join(_ACTIONS)}")
    if point != name:
        return
    _reached[name] = _reached.get(name, 0) + 1
    if _reached[name] != int(os.environ.get("TWICE_FAILPOINT_AT", "1")):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "pause":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        raise TransientError(f"fail point {name}")
