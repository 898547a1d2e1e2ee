"""The record of runs, attempts, leases, outputs and inputs, in a database of its own."""

from __future__ import annotations

from twice.ledger.clock import Clock, ManualClock, SystemClock
from twice.ledger.infos import AttemptInfo, LeaseInfo, PruneReport, RunInfo
from twice.ledger.opening import Ledger, open_ledger
from twice.ledger.redaction import redact
from twice.ledger.values import Abandoned, Claim, InputRecord, Output, Owner

__all__ = [
    "Abandoned",
    "AttemptInfo",
    "Claim",
    "Clock",
    "InputRecord",
    "LeaseInfo",
    "Ledger",
    "ManualClock",
    "Output",
    "Owner",
    "PruneReport",
    "RunInfo",
    "SystemClock",
    "open_ledger",
    "redact",
]
