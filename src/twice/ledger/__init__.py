"""The record of runs, attempts, leases, outputs, inputs and backfills, in a database of its own."""

from __future__ import annotations

from twice.ledger.admin.moving import MoveReport
from twice.ledger.attempts.infos import Merged, Past
from twice.ledger.backfills.infos import BackfillInfo, Chunk, NewChunk, Shadow, Tally
from twice.ledger.db.clock import Clock, ManualClock, SystemClock
from twice.ledger.opening import Ledger, find_ledger, open_ledger, revision_at
from twice.ledger.outputs.holdings import Holding, LastAttempt, second
from twice.ledger.runs import ACCEPTED_GATES
from twice.ledger.runs.costs import Cost
from twice.ledger.runs.infos import AttemptInfo, Health, LeaseInfo, PruneReport, Revision, RunInfo
from twice.ledger.streams import BatchInfo, StreamInfo
from twice.ledger.values import Abandoned, Claim, InputRecord, Output, Owner

__all__ = [
    "ACCEPTED_GATES",
    "Abandoned",
    "AttemptInfo",
    "BackfillInfo",
    "BatchInfo",
    "Chunk",
    "Claim",
    "Clock",
    "Cost",
    "Health",
    "Holding",
    "InputRecord",
    "LastAttempt",
    "LeaseInfo",
    "Ledger",
    "ManualClock",
    "Merged",
    "MoveReport",
    "NewChunk",
    "Output",
    "Owner",
    "Past",
    "PruneReport",
    "Revision",
    "RunInfo",
    "Shadow",
    "StreamInfo",
    "SystemClock",
    "Tally",
    "find_ledger",
    "open_ledger",
    "revision_at",
    "second",
]
