"""A claim that never outlives its attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.engine.attempt.claiming import claim_scope, give_up, replaced
from twice.engine.attempt.heartbeat import Heartbeat
from twice.engine.spark.interrupts import apart

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim


@dataclass(frozen=True)
class HeldLease:
    """A scope that only this run may publish to; `waited`: another run held it before."""

    claim: Claim
    heartbeat: Heartbeat
    waited: bool


@contextmanager
def hold_lease(task: Task) -> Iterator[HeldLease]:
    """Claim the target's scope and keep the lease alive; an attempt that fails leaves no staged rows and no lease."""
    claim, waited = claim_scope(task)
    with Heartbeat(task.ledger, claim, task.lease, on_lost=task.cancel) as heartbeat:
        try:
            yield HeldLease(claim, heartbeat, waited)
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
