"""A run in the ledger, from its start to its end, which is recorded however it comes about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twice.errors import Interrupted, LedgerBusy, LedgerError, ScopeHeld

if TYPE_CHECKING:
    from twice.ledger import Ledger
    from twice.model.scopes import Scope


@contextmanager
def recorded_run(
    ledger: Ledger,
    pipeline: str,
    scope: Scope,
    *,
    command: str = "",
    tags: Mapping[str, str] | None = None,
    environment: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Begin a run and yield its id; it is done when the block ends, or ends with the status of the error."""
    run = ledger.runs.start(pipeline, scope, command=command, tags=tags, environment=environment)
    try:
        yield run
    except BaseException as error:
        end_failed_run(ledger, run, error)
        raise
    end_run(ledger, run, "done")


def end_failed_run(ledger: Ledger, run: str, error: BaseException) -> None:
    """Record what ended a run; where the ledger cannot be written, the missing heartbeat shows that the run is lost."""
    with contextlib.suppress(LedgerError):
        end_run(ledger, run, how_it_ended(error), str(error) or type(error).__name__)


def end_run(ledger: Ledger, run: str, status: str, error: str = "") -> None:
    """Record how a run ended; tried twice, because Ctrl-C or a busy ledger may come in between."""
    try:
        ledger.runs.finish(run, status, error)
    except BaseException as problem:
        # The first end counts: a second one does no harm.
        ledger.runs.finish(run, status, error)
        if not isinstance(problem, LedgerBusy):
            raise


def how_it_ended(error: BaseException) -> str:
    """Return the status of a run that an error ended."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return "interrupted"
    return "held" if isinstance(error, ScopeHeld) else "failed"
