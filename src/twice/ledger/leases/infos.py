"""Leases as the ledger shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
