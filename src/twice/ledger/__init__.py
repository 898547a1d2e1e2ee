"""The record of runs, attempts, leases, outputs and inputs, in a database of its own."""

from __future__ import annotations

from twice.ledger.clock import Clock, ManualClock, SystemClock
from twice.ledger.infos import AttemptInfo, Health, LeaseInfo, PruneReport, Revision, RunInfo
from twice.ledger.moving import MoveReport
from twice.ledger.opening import Ledger, find_ledger, open_ledger, revision_at
from twice.ledger.redaction import redact
from twice.ledger.values import Abandoned, Claim, InputRecord, Output, Owner

__all__ = [
    "Abandoned",
    "AttemptInfo",
    "Claim",
    "Clock",
    "Health",
    "InputRecord",
    "LeaseInfo",
    "Ledger",
    "ManualClock",
    "MoveReport",
    "Output",
    "Owner",
    "PruneReport",
    "Revision",
    "RunInfo",
    "SystemClock",
    "find_ledger",
    "open_ledger",
    "redact",
    "revision_at",
]
