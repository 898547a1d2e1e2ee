"""What the administration of a ledger reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Health:
    """The database software of a ledger that can be written, and how far its clock is ahead of this machine's."""

    software: str
    ahead: timedelta


@dataclass(frozen=True)
class PruneReport:
    """How many rows of each kind a prune removed, or would remove."""

    before: datetime
    dry_run: bool
    runs: int
    attempts: int
    outputs: int
    claims: int
    inputs: int
    backfills: int = 0
    effects: int = 0
    # Effects whose payload and answer were removed, and whose key and state stay.
    tombstones: int = 0
    # Batches of streams, which then cannot be replayed any more.
    batches: int = 0

    def to_json(self) -> dict[str, object]:
        return {
            "before": self.before.isoformat(),
            "dry_run": self.dry_run,
            "runs": self.runs,
            "attempts": self.attempts,
            "outputs": self.outputs,
            "claims": self.claims,
            "inputs": self.inputs,
            "backfills": self.backfills,
            "effects": self.effects,
            "tombstones": self.tombstones,
            "batches": self.batches,
        }
