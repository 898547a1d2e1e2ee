"""What is done, failed, running, missing or stale, step by step and partition by partition.

All of it comes from the ledger; with `live` and `sources` the tables are read too.
"""

from __future__ import annotations

from twice.engine.status.collecting import bounds, collect, collect_without_spark
from twice.engine.status.inputs import Sources
from twice.engine.status.judging import Files, status
from twice.engine.status.values import (
    STATES,
    PartitionStatus,
    PipelineStatus,
    Reason,
    State,
    Status,
    StepStatus,
)

__all__ = [
    "STATES",
    "Files",
    "PartitionStatus",
    "PipelineStatus",
    "Reason",
    "Sources",
    "State",
    "Status",
    "StepStatus",
    "bounds",
    "collect",
    "collect_without_spark",
    "status",
]
