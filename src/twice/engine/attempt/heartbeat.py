"""Keeping a lease alive while its holder works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from twice.errors import LeaseLost, LedgerError

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Self

    from twice.ledger import Claim, Ledger


class Heartbeat:
    """Renews a claim four times per lease until the block ends.

    Losing the claim calls `on_lost` once, so that running Spark jobs can be cancelled. This only
    saves work: the fence in the table is what keeps a replaced holder from publishing.
    """

    def __init__(self, ledger: Ledger, claim: Claim, ttl: timedelta, on_lost: Callable[[], None]) -> None:
        self._ledger, self._claim, self._ttl, self._on_lost = ledger, claim, ttl, on_lost
        self._stop = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._beat, name=f"twice-lease-{claim.token}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def require(self) -> None:
        """Raise if the claim is no longer ours."""
        if self._lost or not self._ledger.leases.renew(self._claim, self._ttl):
            self._lost = True
            raise lease_lost(self._claim)

    def _beat(self) -> None:
        while not self._stop.wait(self._ttl.total_seconds() / 4):
            try:
                held = self._ledger.leases.renew(self._claim, self._ttl)
            except LedgerError:
                continue  # the next heartbeat may succeed; until then the lease stays valid
            if not held and not self._stop.is_set():
                self._lost = True
                self._on_lost()
                return


def lease_lost(claim: Claim) -> LeaseLost:
    """Build the error of a holder that was replaced."""
    return LeaseLost(
        f"{claim.table}: the claim {claim.token} on {', '.join(map(str, claim.scopes))} was taken over by another run",
        unchanged="nothing was published by this run; the run that took over decides what the table holds",
        next_step="look at `twice leases`, then run again",
    )
