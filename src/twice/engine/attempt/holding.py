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
    from twice.engine.attempt.job import Job
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
def noted(job: Job, code: str | None = None) -> Iterator[Job]:
    """Enter an attempt in the ledger, its Spark jobs in one group; however it fails, that is written down."""
    table, scope = job.step.writes.name, job.target.scope
    row = job.ledger.attempts.start(job.run, job.step.name, table, job.number, scope, code=code or job.code)
    job = replace(job, attempt=row)
    try:
        with grouped(job):
            yield job
    except KeyboardInterrupt:
        job.ledger.attempts.finish(row, "interrupted")
        raise
    except Exception as error:
        problem = explained(job, error)
        status = next((how for kind, how in _ENDS.items() if isinstance(problem, kind)), "failed")
        transient = is_transient(problem, job.step.transient)
        cost = measured(job)
        details = {"cost": cost} if cost else None
        job.ledger.attempts.finish(row, status, error=str(problem), transient=transient, details=details)
        if problem is error:
            raise
        raise problem from error


@contextmanager
def held(job: Job) -> Iterator[Held]:
    """Claim the target's scope and keep the lease alive; an attempt that fails leaves no stage and no lease behind."""
    claim, waited = claim_scope(job)
    with Heartbeat(job.ledger, claim, job.lease, on_lost=job.cancel) as heartbeat:
        try:
            yield Held(claim, heartbeat, waited)
        except KeyboardInterrupt:
            apart(job.cancel, lambda: give_up(job, claim))
            raise
        except BaseException as error:
            lost = replaced(job, claim, error)
            give_up(job, claim)
            if lost:
                raise lost from error
            raise
        finally:
            job.stores.release(job.session)
