"""What comes out of the ledger: runs, attempts, leases and the report of a prune, ready to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from twice.ledger.runs import ACCEPTED_GATES
from twice.ledger.values import InputRecord, Owner
from twice.model.scopes import Scope


def _iso(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


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
            "since": _iso(self.since),
            "expires_at": _iso(self.expires_at),
            "state": self.state,
        }


@dataclass(frozen=True)
class AttemptInfo:
    """One try of one step; `status` is `lost` where the process died without a word."""

    id: int
    run: str
    pipeline: str
    step: str
    table: str
    scope: Scope
    number: int
    status: str
    code: str
    inputs: tuple[InputRecord, ...]
    token: int | None
    base_version: str | None
    version: str | None
    rows: int | None
    error: str
    transient: bool
    details: Mapping[str, object]
    started_at: datetime
    finished_at: datetime | None

    @property
    def accepted_gates(self) -> Sequence[Mapping[str, str]]:
        """What its gates found and its run let through."""
        return cast("Sequence[Mapping[str, str]]", self.details.get(ACCEPTED_GATES, ()))

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "run": self.run,
            "pipeline": self.pipeline,
            "step": self.step,
            "table": self.table,
            "scope": self.scope.to_json(),
            "number": self.number,
            "status": self.status,
            "code": self.code,
            "inputs": [record.to_json() for record in self.inputs],
            "token": self.token,
            "base_version": self.base_version,
            "version": self.version,
            "rows": self.rows,
            "error": self.error,
            "transient": self.transient,
            "details": dict(self.details),
            "started_at": _iso(self.started_at),
            "finished_at": _iso(self.finished_at),
        }


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
            "started_at": _iso(self.started_at),
            "finished_at": _iso(self.finished_at),
            "attempts": [attempt.to_json() for attempt in self.attempts],
        }


@dataclass(frozen=True)
class Revision:
    """How far a ledger's tables are, None where there are none, and how far this package would bring them."""

    url: str
    found: str | None
    newest: str

    @property
    def up_to_date(self) -> bool:
        return self.found == self.newest

    def to_json(self) -> dict[str, object]:
        return {"url": self.url, "revision": self.found, "newest": self.newest, "up_to_date": self.up_to_date}


@dataclass(frozen=True)
class Health:
    """What a ledger that can be written is kept by, and how far its clock is ahead of this machine's."""

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
            "before": _iso(self.before),
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
