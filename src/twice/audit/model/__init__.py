"""The statement model: what one file does, in words that are the same for SQL, PySpark, dbt and orchestrators.

A front end (`twice.audit.languages`) turns a file into a `Job`; a rule looks at nothing else.

    for write in job.writes:                 # INSERT INTO t …  and  df.write.mode("append").saveAsTable("t")
        if write.mode is Mode.APPEND and job.cleared_by(write) is None and not write.target.is_scratch:
            yield finding(__name__, …)
"""

from __future__ import annotations

from twice.audit.model.job import Job, Problem
from twice.audit.model.plans import DbtModel, Orchestration, Parameter, Task
from twice.audit.model.uses import DECIDING, HARMLESS, Call, Context, Effect, EffectKind, Use
from twice.audit.model.writes import Merge, Mode, Target, When, Write, same_table
from twice.audit.vocabulary import is_audit_column

__all__ = [
    "DECIDING", "HARMLESS", "Call", "Context", "DbtModel", "Effect", "EffectKind", "Job", "Merge", "Mode",
    "Orchestration", "Parameter", "Problem", "Target", "Task", "Use", "When", "Write", "is_audit_column", "same_table",
]  # fmt: skip
