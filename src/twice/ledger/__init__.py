"""The record of runs, attempts, leases, outputs, inputs and backfills, in a database of its own.

This is its only door: no other package imports what is below it.
"""

from __future__ import annotations

from twice.ledger.admin.moving import MoveReport, Progress
from twice.ledger.admin.reports import Health, PruneReport
from twice.ledger.attempts.infos import ACCEPTED_GATES, AttemptInfo, LastAttempt, Merged, Past
from twice.ledger.backfills import backfill_at_work
from twice.ledger.backfills.infos import BackfillInfo, Chunk, NewChunk, Shadow, Tally
from twice.ledger.backfills.step_notes import was_split
from twice.ledger.db.clock import Clock, ManualClock, SystemClock
from twice.ledger.db.encoding import second
from twice.ledger.db.migrate import Revision
from twice.ledger.effects.records import (
    CONFIRMED,
    DEAD,
    FAILED,
    STATES,
    SUPPRESSED,
    UNKNOWN,
    Claimed,
    EffectRecord,
    Outcome,
    Subject,
    Verdict,
    Wanted,
)
from twice.ledger.leases.infos import LeaseInfo
from twice.ledger.opening import Ledger, find_ledger, open_ledger, revision_at
from twice.ledger.outputs.holdings import Holding
from twice.ledger.runs.costs import Cost
from twice.ledger.runs.infos import RunInfo
from twice.ledger.streams.batches import BatchInfo
from twice.ledger.streams.infos import StreamInfo
from twice.ledger.values import Abandoned, Claim, InputRecord, Output, Owner

__all__ = [
    "ACCEPTED_GATES",
    "CONFIRMED",
    "DEAD",
    "FAILED",
    "STATES",
    "SUPPRESSED",
    "UNKNOWN",
    "Abandoned",
    "AttemptInfo",
    "BackfillInfo",
    "BatchInfo",
    "Chunk",
    "Claim",
    "Claimed",
    "Clock",
    "Cost",
    "EffectRecord",
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
    "Outcome",
    "Output",
    "Owner",
    "Past",
    "Progress",
    "PruneReport",
    "Revision",
    "RunInfo",
    "Shadow",
    "StreamInfo",
    "Subject",
    "SystemClock",
    "Tally",
    "Verdict",
    "Wanted",
    "backfill_at_work",
    "find_ledger",
    "open_ledger",
    "revision_at",
    "second",
    "was_split",
]
