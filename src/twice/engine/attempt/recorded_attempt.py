"""An attempt in the ledger: its begin and its end are recorded, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.engine.attempt.failures import explained
from twice.engine.attempt.retries import is_transient
from twice.engine.spark.job_group import grouped
from twice.engine.spark.metrics import measured
from twice.errors import Interrupted, LeaseLost, ScopeHeld, TwiceError

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task

# How an attempt ends that was stopped from outside.
_ENDS: dict[type[TwiceError], str] = {LeaseLost: "lost", ScopeHeld: "held", Interrupted: "interrupted"}


@contextmanager
def recorded_attempt(task: Task, code: str | None = None) -> Iterator[Task]:
    """Record an attempt in the ledger, its Spark jobs in one group; every failure is recorded, too."""
    table, scope = task.step.writes.name, task.target.scope
    attempt_id = task.ledger.attempts.start(task.run, task.step.name, table, task.number, scope, code=code or task.code)
    task = replace(task, attempt_id=attempt_id)
    try:
        with grouped(task):
            yield task
    except KeyboardInterrupt:
        task.ledger.attempts.finish(attempt_id, "interrupted")
        raise
    except Exception as error:
        problem = explained(task, error)
        status = next((how for kind, how in _ENDS.items() if isinstance(problem, kind)), "failed")
        transient = is_transient(problem, task.step.transient)
        cost = measured(task)
        details = {"cost": cost} if cost else None
        task.ledger.attempts.finish(attempt_id, status, error=str(problem), transient=transient, details=details)
        if problem is error:
            raise
        raise problem from error
