"""Attempts as the ledger shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast

from twice.ledger.values import InputRecord
from twice.model.scopes import Scope
from twice.model.windows import Window

# Marks an attempt that did no work of its own.
PART = "inside"
# What an attempt's gates found and its run let through: gate, partition, found, because.
ACCEPTED_GATES = "accepted_gates"


@dataclass(frozen=True)
class AttemptInfo:
    """One try of one step; `status` is `lost` where the process died before it recorded an end."""

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
    def is_part(self) -> bool:
        """Whether it did no work of its own: it records a scope that failed inside another attempt."""
        return PART in self.details

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
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
        }


class LastAttempt(NamedTuple):
    """The newest attempt for one scope of a step."""

    id: int
    run: str
    start: str | None
    end: str | None
    dimensions: str
    status: str
    error: str


@dataclass(frozen=True)
class Past:
    """One attempt that computed something, and the window of its run."""

    scope: Scope
    rows: int | None
    seconds: float
    details: Mapping[str, Any]
    window: Window | None = None


@dataclass(frozen=True)
class Merged:
    """One attempt on a table without partitions, with the scope of its run."""

    scope: Scope
    status: str
    code: str
    error: str
    inputs: tuple[InputRecord, ...]
