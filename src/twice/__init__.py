"""`twice` makes Spark pipelines safe to run twice.

A session in a notebook; `shop` is a pipeline by day, and `facts` one of its steps. The functions read the twice.toml of
this folder or one above, unless `config=` names another, and use the Spark session of the process or start one, unless
`spark=` is given.

>>> import twice
>>> twice.preview(facts, "2026-04-25").count()
3
>>> result = twice.run(shop, "2026-04-25")
>>> result.status
'done'
>>> twice.status(shop).counts
{'done': 1}
>>> twice.backfill(shop, "2026-04-25", "2026-04-28").status
'done'
>>> [undone.status for undone in twice.undo(result)]
['restored']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twice.errors import (
    ConfigError,
    Conflict,
    DefinitionError,
    EnvironmentProblem,
    GateFailed,
    Interrupted,
    KeyViolation,
    LateData,
    LeaseLost,
    LedgerBusy,
    LedgerError,
    MergeRefused,
    NotDeterministic,
    NotSeparable,
    OutOfScope,
    PermanentError,
    RetriesExhausted,
    SchemaRefused,
    ScopeHeld,
    StepFailed,
    StoreRefused,
    StreamRefused,
    TransientError,
    TwiceError,
    UsageError,
    WriteRefused,
)
from twice.model import gates
from twice.model.durations import Duration, days, hours, minutes
from twice.model.grains import Day, Grain, Hour, Month, QuarterHour, Week
from twice.model.keys import key_hash
from twice.model.patterns import InsertOnly, Merge, Overwrite, Whole
from twice.model.pipelines import Pipeline
from twice.model.scopes import Scope
from twice.model.steps import Retry
from twice.model.tables import Table
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.api import backfill, open_ledger, preview, run, run_stream, status, undo
    from twice.backfills.summary import BackfillResult
    from twice.content.joins import as_of_join
    from twice.content.keys import key_of, key_sql
    from twice.engine.attempt.task import StepResult
    from twice.engine.operations.undo import UndoResult
    from twice.engine.run import RunResult
    from twice.engine.status import PartitionStatus, PipelineStatus, Status, StepStatus
    from twice.ledger import Ledger
    from twice.streams.progress import StreamResult

__version__ = "0.1.0"

__all__ = [
    "BackfillResult",
    "ConfigError",
    "Conflict",
    "Day",
    "DefinitionError",
    "Duration",
    "EnvironmentProblem",
    "GateFailed",
    "Grain",
    "Hour",
    "InsertOnly",
    "Interrupted",
    "KeyViolation",
    "LateData",
    "LeaseLost",
    "Ledger",
    "LedgerBusy",
    "LedgerError",
    "Merge",
    "MergeRefused",
    "Month",
    "NotDeterministic",
    "NotSeparable",
    "OutOfScope",
    "Overwrite",
    "PartitionStatus",
    "PermanentError",
    "Pipeline",
    "PipelineStatus",
    "QuarterHour",
    "RetriesExhausted",
    "Retry",
    "RunResult",
    "SchemaRefused",
    "Scope",
    "ScopeHeld",
    "Status",
    "StepFailed",
    "StepResult",
    "StepStatus",
    "StoreRefused",
    "StreamRefused",
    "StreamResult",
    "Table",
    "TransientError",
    "TwiceError",
    "UndoResult",
    "UsageError",
    "Week",
    "Whole",
    "Window",
    "WriteRefused",
    "as_of_join",
    "backfill",
    "days",
    "gates",
    "hours",
    "key_hash",
    "key_of",
    "key_sql",
    "minutes",
    "open_ledger",
    "preview",
    "run",
    "run_stream",
    "status",
    "undo",
]

# These need Spark or a database, which importing a pipeline module must not load.
_LOADED_WHEN_USED = {
    "BackfillResult": "twice.backfills.summary",
    "Ledger": "twice.ledger",
    "PartitionStatus": "twice.engine.status",
    "PipelineStatus": "twice.engine.status",
    "RunResult": "twice.engine.run",
    "Status": "twice.engine.status",
    "StepResult": "twice.engine.attempt.task",
    "StepStatus": "twice.engine.status",
    "StreamResult": "twice.streams.progress",
    "UndoResult": "twice.engine.operations.undo",
    "as_of_join": "twice.content.joins",
    "backfill": "twice.api",
    "key_of": "twice.content.keys",
    "key_sql": "twice.content.keys",
    "open_ledger": "twice.api",
    "preview": "twice.api",
    "run": "twice.api",
    "run_stream": "twice.api",
    "status": "twice.api",
    "undo": "twice.api",
}


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_USED:
        from importlib import import_module

        return getattr(import_module(_LOADED_WHEN_USED[name]), name)
    raise AttributeError(f"module 'twice' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
