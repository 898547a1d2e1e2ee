"""What the ledger knows of an effect: what it is about, its state, and what a caller may do about it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from twice.ledger.db.encoding import scope_of, scope_text
from twice.ledger.values import Owner
from twice.model.keys import key_hash
from twice.model.scopes import Scope

# States of an effect. A call may be in flight (intent), or its outcome cannot be known (unknown).
INTENT, CONFIRMED, FAILED, UNKNOWN, SUPPRESSED, DEAD = (
    "intent", "confirmed", "failed", "unknown", "suppressed", "dead",
)  # fmt: skip
STATES = (INTENT, CONFIRMED, FAILED, UNKNOWN, SUPPRESSED, DEAD)


@dataclass(frozen=True)
class Subject:
    """What an effect is about: a scope, or a business key whatever scope it is in."""

    pipeline: str
    effect: str
    scope: Scope = field(default_factory=lambda: Scope(None))
    business_key: str = ""
    table: str = ""

    @cached_property
    def id(self) -> str:
        """The same for every generation."""
        return key_hash(*self._parts)

    def key(self, generation: int) -> str:
        """Return the idempotency key of a generation: it does not depend on host, run, attempt or function."""
        return key_hash(*self._parts, generation)

    @property
    def _parts(self) -> tuple[str, str, str, str]:
        return self.pipeline, self.effect, *(("key", self.business_key) if self.business_key else
                                             ("scope", scope_text(self.scope)))  # fmt: skip

    def __str__(self) -> str:
        about = self.business_key or ("" if self.scope == Scope(None) else str(self.scope))
        return " ".join(filter(None, (f"{self.pipeline}.{self.effect}" if self.pipeline else self.effect, about)))


@dataclass(frozen=True)
class EffectRecord:
    """One generation of an effect; `state` is `unknown` where a call was begun and its caller has vanished."""

    key: str
    subject: Subject
    generation: int
    state: str
    attempts: int
    fingerprint: str
    outdated: str
    payload: Any
    response: Any
    error: str
    note: str
    run: str | None
    claim: str | None
    owner: Owner | None
    expires_at: datetime | None
    created_at: datetime
    called_at: datetime | None
    changed_at: datetime

    @classmethod
    def of(cls, row: Any, now: datetime) -> EffectRecord:
        """Read a row; a claim ends with its time, or with its process where that can be seen."""
        owner = Owner(row.host, row.pid) if row.claim is not None else None
        held = owner is not None and row.expires_at > now and not owner.is_gone
        return cls(
            key=row.key,
            subject=Subject(row.pipeline, row.effect, scope_of(row), row.business_key, row.table_name),
            generation=row.generation,
            state=UNKNOWN if row.state == INTENT and not held else row.state,
            attempts=row.attempts,
            fingerprint=row.fingerprint,
            outdated=row.outdated,
            payload=json.loads(row.payload) if row.payload else None,
            response=json.loads(row.response) if row.response else None,
            error=row.error,
            note=row.note,
            run=row.run,
            claim=row.claim if held else None,
            owner=owner if held else None,
            expires_at=row.expires_at if held else None,
            created_at=row.created_at,
            called_at=row.called_at,
            changed_at=row.changed_at,
        )

    def ended(self, outcome: Outcome) -> EffectRecord:
        """Return the record as an outcome leaves it."""
        return dataclasses.replace(
            self,
            state=outcome.state,
            attempts=self.attempts - 1 + outcome.calls,
            response=json.loads(outcome.response) if outcome.response else None,
            error=outcome.error,
            note=outcome.note,
            fingerprint=outcome.sent.fingerprint if outcome.sent else self.fingerprint,
            outdated="" if outcome.sent else self.outdated,
            claim=None,
            owner=None,
            expires_at=None,
        )

    @property
    def is_held(self) -> bool:
        """Whether another process works on it at this moment."""
        return self.claim is not None

    @property
    def needs_attention(self) -> bool:
        """Whether it is not settled: owed after a failure, unknown, out of attempts, or outdated."""
        return self.state in (FAILED, UNKNOWN, DEAD) or bool(self.outdated)

    def to_json(self) -> dict[str, object]:
        return {
            "key": self.key,
            "pipeline": self.subject.pipeline,
            "effect": self.subject.effect,
            "table": self.subject.table,
            "scope": self.subject.scope.to_json(),
            "business_key": self.subject.business_key,
            "generation": self.generation,
            "state": self.state,
            "attempts": self.attempts,
            "outdated": bool(self.outdated),
            "payload": self.payload,
            "response": self.response,
            "error": self.error,
            "note": self.note,
            "run": self.run,
            "owner": self.owner.to_json() if self.owner else None,
            "created_at": self.created_at.isoformat(),
            "called_at": self.called_at.isoformat() if self.called_at else None,
            "changed_at": self.changed_at.isoformat(),
        }


@dataclass(frozen=True)
class Wanted:
    """An effect that is due, and what it would send."""

    subject: Subject
    fingerprint: str
    payload: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a caller does about an effect. `changes` are columns of the newest generation, written at once.

    `call`: send it; `resend`: send it as the next generation; `reconcile`: ask whether it was sent; `leave`: nothing.
    """

    action: Literal["call", "resend", "reconcile", "leave"]
    why: str = ""
    changes: Mapping[str, object] = field(default_factory=dict)


Decide = Callable[["EffectRecord | None", Wanted, datetime], Verdict]


@dataclass(frozen=True)
class Claimed:
    """The answer to one wanted effect: its state now, and the claim if there is something to do."""

    wanted: Wanted
    record: EffectRecord
    verdict: Verdict
    claim: str | None
    # Its state before, if anything was known.
    before: EffectRecord | None = None


@dataclass(frozen=True)
class Outcome:
    """How a claimed effect ended."""

    key: str
    state: str
    response: str = ""
    error: str = ""
    note: str = ""
    # How often it was really called; 0 if its turn did not come.
    calls: int = 1
    # What was sent; None: what was recorded before.
    sent: Wanted | None = None
