"""Backfills and their chunks, as the ledger keeps and shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from twice.ledger.db.schema import instant_of, instant_text
from twice.ledger.values import Owner
from twice.model.scopes import Scope

# States in which work on a backfill can continue.
OPEN_STATES = ("running", "paused", "interrupted")
BACKFILL_ENDS = frozenset({"done", "partly", "cancelled", "interrupted"})
CHUNK_ENDS = frozenset({"done", "failed", "blocked", "cancelled"})


@dataclass(frozen=True)
class NewChunk:
    """One step for neighbouring partitions, before it has a number; a blocked one is kept, not run."""

    scope: Scope
    partitions: int
    blocked: str = ""


@dataclass(frozen=True)
class Chunk:
    """One step for neighbouring partitions: one claim, one set of Spark jobs."""

    id: int
    backfill: str
    step_index: int
    step: str
    position: int
    scope: Scope
    partitions: int
    state: str
    spot_check: bool
    tries: int
    owner: Owner | None
    run: str | None
    rows: int | None
    refused: Mapping[str, str]
    error: str
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long it took, if it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "step": self.step,
            "scope": self.scope.to_json(),
            "partitions": self.partitions,
            "state": self.state,
            "tries": self.tries,
            "owner": self.owner.to_json() if self.owner else None,
            "run": self.run,
            "rows": self.rows,
            "seconds": self.seconds,
            "refused": dict(self.refused),
            "error": self.error,
        }


@dataclass(frozen=True)
class Tally:
    """How many partitions of one step are in each state; refused ones count as failed."""

    step: str
    done: int = 0
    running: int = 0
    waiting: int = 0
    failed: int = 0
    blocked: int = 0
    cancelled: int = 0
    rows: int = 0

    @property
    def total(self) -> int:
        """All partitions that were to be built."""
        return self.done + self.running + self.waiting + self.failed + self.blocked + self.cancelled

    def to_json(self) -> dict[str, object]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Shadow:
    """The shadows of one backfill: by table its shadow's name, and the version of each swap that is done.

    `odd` names the partitions of the range, with their fingerprints, that held something when the shadow began which
    no run had recorded; `shown`, that readers may see some of it; `removed`, that nothing is left of the shadows
    themselves.
    """

    tables: Mapping[str, str]
    state: str = "building"
    begun_at: datetime | None = None
    swapped: Mapping[str, str] = field(default_factory=dict)
    odd: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    removed: bool = False
    shown: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "state": self.state,
            "tables": dict(self.tables),
            "begun_at": instant_text(self.begun_at) if self.begun_at else None,
            "swapped": dict(self.swapped),
            "odd": {table: dict(found) for table, found in self.odd.items()},
            "removed": self.removed,
            "shown": self.shown,
        }


def shadow_of(text: str) -> Shadow | None:
    """Read a backfill's shadows from their column."""
    if not text:
        return None
    value = json.loads(text)
    begun = instant_of(value["begun_at"]) if value["begun_at"] else None
    shown = value.get("shown", value["state"] == "swapping")
    return Shadow(value["tables"], value["state"], begun, value["swapped"], value["odd"], value["removed"], shown)


@dataclass(frozen=True)
class BackfillInfo:
    """A backfill; `status` is `lost` where no process works on one that is not ended."""

    id: str
    pipeline: str
    scope: Scope
    tables: tuple[str, ...]
    request: Mapping[str, Any]
    code: Mapping[str, str]
    plan: Sequence[Mapping[str, Any]]
    command: str
    status: str
    parallel: int
    step_index: int
    error: str
    started_at: datetime
    finished_at: datetime | None
    workers: tuple[Owner, ...]
    tallies: tuple[Tally, ...]
    shadow: Shadow | None = None

    @property
    def to_come(self) -> Mapping[str, int]:
        """Partitions of the steps whose turn has not come, as planned."""
        known = {tally.step for tally in self.tallies} | {str(note["step"]) for note in self.plan}
        last = self.plan[-1].get("to_come", {}) if self.plan else {}
        return {step: count for step, count in last.items() if step not in known}

    @property
    def partitions(self) -> int:
        """All partitions that it is to build."""
        return sum(tally.total for tally in self.tallies) + sum(self.to_come.values())

    def count(self, state: str) -> int:
        """Sum up one state over all steps."""
        return sum(getattr(tally, state) for tally in self.tallies)

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "pipeline": self.pipeline,
            "scope": self.scope.to_json(),
            "tables": list(self.tables),
            "request": dict(self.request),
            "plan": [dict(step) for step in self.plan],
            "command": self.command,
            "status": self.status,
            "parallel": self.parallel,
            "error": self.error,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "workers": [worker.to_json() for worker in self.workers],
            "steps": [tally.to_json() for tally in self.tallies],
            "partitions": self.partitions,
            "shadow": self.shadow.to_json() if self.shadow else None,
        }
