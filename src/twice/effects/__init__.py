"""Calls to the outside world that happen once, however often a job is run."""

from __future__ import annotations

from twice.effects.calls import Answer, KeyUsed, NotSent, OutcomeUnknown, Rejected
from twice.effects.once import Call, guarded, once
from twice.model.effects import Retry

__all__ = [
    "Answer",
    "Call",
    "KeyUsed",
    "NotSent",
    "OutcomeUnknown",
    "Rejected",
    "Retry",
    "guarded",
    "once",
]
