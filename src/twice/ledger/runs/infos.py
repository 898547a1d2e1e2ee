"""Runs as the ledger shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from twice.ledger.attempts.infos import AttemptInfo
from twice.ledger.values import Owner
from twice.model.scopes import Scope


@dataclass(frozen=True)
class RunInfo:
    """One scope of a pipeline brought up to date, or not."""

    id: str
    pipeline: str
    scope: Scope
    command: str
    tags: Mapping[str, str]
    owner: Owner
    status: str
    error: str
    started_at: datetime
    finished_at: datetime | None
    attempts: tuple[AttemptInfo, ...]
    # Empty where nothing was computed, or nothing of it was recorded.
    environment: Mapping[str, object] = field(default_factory=dict)

    @property
    def accepted_gates(self) -> list[Mapping[str, str]]:
        """What gates found and the run let through: the last attempt of each step counts."""
        last = {attempt.step: attempt for attempt in self.attempts}
        return [each for attempt in last.values() for each in attempt.accepted_gates]

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "pipeline": self.pipeline,
            "scope": self.scope.to_json(),
            "command": self.command,
            "tags": dict(self.tags),
            "owner": self.owner.to_json(),
            "status": self.status,
            "error": self.error,
            "accepted_gates": [dict(each) for each in self.accepted_gates],
            "environment": dict(self.environment),
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "attempts": [attempt.to_json() for attempt in self.attempts],
        }
