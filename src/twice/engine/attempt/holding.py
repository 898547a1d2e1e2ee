"""The frame of everything that publishes: an attempt in the ledger, and a claim that never outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twice.engine.attempt.claiming import claim_scope, give_up, replaced
from twice.engine.attempt.failures import explained
from twice.engine.attempt.heartbeat import Heartbeat
from twice.engine.attempt.retries import is_transient
from twice.engine.spark.interrupts import apart
from twice.engine.spark.job_group import grouped
from twice.engine.spark.metrics import measured
from twice.errors import Interrupted, LeaseLost, ScopeHeld, TwiceError

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim

# How an attempt ends that did not fail for a reason of its own.
_ENDS: dict[type[TwiceError], str] = {LeaseLost: "lost", ScopeHeld: "held", Interrupted: "interrupted"}


@dataclass(frozen=True)
class Held:
    """A scope that only this run may publish to; `waited`: another run held it before."""

    claim: Claim
    heartbeat: Heartbeat
    waited: bool


@contextmanager
def recorded_attempt(task: Task, code: str | None = None) -> Iterator[Task]:
    """Enter an attempt in the ledger, its Spark jobs in one group; however it fails, that is written down."""
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


@contextmanager
def hold_lease(task: Task) -> Iterator[Held]:
    """Claim the target's scope and keep the lease alive; an attempt that fails leaves no stage and no lease behind."""
    claim, waited = claim_scope(task)
    with Heartbeat(task.ledger, claim, task.lease, on_lost=task.cancel) as heartbeat:
        try:
            yield Held(claim, heartbeat, waited)
        except KeyboardInterrupt:
            apart(task.cancel, lambda: give_up(task, claim))
            raise
        except BaseException as error:
            lost = replaced(task, claim, error)
            give_up(task, claim)
            if lost:
                raise lost from error
            raise
        finally:
            task.stores.release(task.session)
