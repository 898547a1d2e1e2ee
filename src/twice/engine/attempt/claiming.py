"""Claim a scope, wait for it, or give it back."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from twice.engine.attempt.heartbeat import lease_lost
from twice.engine.spark.jvm import is_stopped
from twice.errors import Interrupted, LeaseLost, LedgerError, ScopeHeld, TransientError, TwiceError, UsageError
from twice.failpoints import fail_point
from twice.ledger import Owner
from twice.model.scopes import Scope

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim, LeaseInfo, Ledger

_POLL = 0.5


def claim_scope(task: Task) -> tuple[Claim, bool]:
    """Claim the target's scope; return the claim and whether another run held it before."""
    table, waited = task.step.writes, False
    deadline = time.monotonic() + task.wait
    while True:
        floor = task.store.token(task.session, table)
        try:
            claim = task.ledger.leases.claim(table.name, [claimed(task)], ttl=task.lease, run=task.run, floor=floor)
        except ScopeHeld as held:
            if replace_dead_holders(task.ledger, table.name, claimed(task), task.run):
                continue
            if time.monotonic() >= deadline:
                raise
            if task.abandoned():
                raise Interrupted(
                    f"step {task.step.name} was stopped while it waited", unchanged="nothing was published"
                ) from None
            if not waited:
                task.report("waiting", held.message)
            waited = True
            time.sleep(_POLL)
            continue
        fail_point("claim.leased")
        task.report("claimed", f"token {claim.token}", {"token": claim.token})
        return claim, waited


def claimed(task: Task) -> Scope:
    """Return what a claim must cover: the scope, or the whole table where a store allows one writer."""
    return task.target.scope if task.store.abilities.side_by_side else Scope(None)


def give_up(task: Task, claim: Claim) -> None:
    """Leave no staged rows and no lease behind; the next claim recovers what cannot be cleaned now."""
    try:
        _fence_own(task, claim)
    except (TwiceError, Py4JError, PySparkException, OSError):
        _abandon(task, claim)
    except AttributeError:
        _abandon(task, claim)
        if not is_stopped(task.session):  # PySpark has no better error for a session that was stopped
            raise


def _fence_own(task: Task, claim: Claim) -> None:
    landed = task.store.fence(task.session, task.step.writes, claim.token, own=True)
    if landed is None:
        task.ledger.leases.release(claim)
    elif task.ledger.leases.holds(claim):
        # The commit is in the table, only its record failed: complete it.
        task.ledger.leases.settle(task.ledger.leases.take_over(claim.table, claim.token), landed=True, version=landed)


def _abandon(task: Task, claim: Claim) -> None:
    """Give the claim up, so that the next claim on this scope settles it without waiting for the lease."""
    with suppress(TwiceError, OSError):
        task.ledger.leases.take_over(claim.table, claim.token)


def replaced(task: Task, claim: Claim, error: BaseException) -> LeaseLost | None:
    """Return the error of a claim that was taken over, if that is why its rows are gone or its jobs cancelled."""
    ours = isinstance(error, TwiceError) and not isinstance(error, TransientError)
    if ours or not isinstance(error, Exception):
        return None
    try:
        return None if task.ledger.leases.holds(claim) else lease_lost(claim)
    except LedgerError:
        return None


def drop_leftovers(task: Task, claim: Claim) -> None:
    """Drop staged rows whose claim has ended: Spark may outlive its driver and finish a write that no run waits for."""
    # List staged rows before leases: a running attempt takes its lease before it stages.
    if older := [token for token in task.store.staged_tokens(task.session, task.step.writes) if token < claim.token]:
        at_work = {lease.token for lease in task.ledger.leases.list() if lease.table == claim.table}
        for token in older:
            if token not in at_work:
                task.store.fence(task.session, task.step.writes, token)


def replace_dead_holders(ledger: Ledger, table: str, wanted: Scope, run: str | None = None) -> bool:
    """Take over from holders on this machine whose process is gone: no need to wait for their leases.

    Its Spark may still be committing; the fence decides that, as for any other takeover.
    """
    here, replaced = Owner.here(), False
    for lease in ledger.leases.list():
        if lease.table != table or lease.state != "live":
            continue
        # An earlier attempt of this very run may not have been able to give its claim back.
        again = run is not None and lease.run == run
        gone = again or (lease.owner.host == here.host and not _alive(lease.owner.pid))
        if gone and any(scope.overlaps(wanted) for scope in lease.scopes):
            with suppress(UsageError):  # another run was faster
                ledger.leases.take_over(lease.table, lease.token)
            replaced = True
    return replaced


def live_holder(ledger: Ledger, table: str, wanted: Scope) -> LeaseInfo | None:
    """Return the lease that blocks a claim on a scope now, unless its process is known to be gone."""
    here = Owner.here().host
    for lease in ledger.leases.list():
        held = lease.table == table and lease.state == "live" and any(scope.overlaps(wanted) for scope in lease.scopes)
        if held and (lease.owner.host != here or _alive(lease.owner.pid)):
            return lease
    return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
