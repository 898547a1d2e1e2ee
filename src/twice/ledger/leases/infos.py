"""Leases as the ledger shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from twice.errors import ScopeHeld
from twice.ledger.values import Owner
from twice.model.scopes import Scope


@dataclass(frozen=True)
class LeaseInfo:
    """A claim that is not closed: `live`, `expired` (not taken over yet) or `taken` (not settled yet)."""

    table: str
    scopes: tuple[Scope, ...]
    token: int
    run: str | None
    owner: Owner
    since: datetime
    expires_at: datetime
    state: str

    def refusal(self, wanted: Sequence[Scope]) -> ScopeHeld:
        """Return the error of a run that wants what is held."""
        scope = next(mine for mine in wanted if any(mine.overlaps(other) for other in self.scopes))
        run = f"run {self.run}" if self.run else "a process without a run"
        return ScopeHeld(
            f"{self.table} {scope} is held by {run} on {self.owner.host} (pid {self.owner.pid}), token {self.token}, "
            f"since {self.since:%Y-%m-%d %H:%M:%S}Z, until {self.expires_at:%H:%M:%S}Z unless renewed",
            unchanged="nothing was claimed and nothing was changed",
            next_step="wait for it with --wait SECONDS; if that process is gone the lease ends by itself; "
            "`twice leases` lists them all and can release one",
        )

    def to_json(self) -> dict[str, object]:
        return {
            "table": self.table,
            "scopes": [scope.to_json() for scope in self.scopes],
            "token": self.token,
            "run": self.run,
            "owner": self.owner.to_json(),
            "since": self.since.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            "state": self.state,
        }
