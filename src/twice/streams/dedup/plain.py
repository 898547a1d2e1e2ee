"""Rows of events that were told apart before: all of them are new, and each key must occur once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.content.changes import disputed_in_source
from twice.engine.gating import judge
from twice.engine.samples import LIMIT, rows_text
from twice.engine.staging import compare_by_key, matched_columns, refuse_null_keys
from twice.errors import KeyViolation
from twice.model.patterns import Merge
from twice.streams.dedup.rows import Counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.job import Job
    from twice.store.protocol import Stage


def stage_all(job: Job, stage: Stage, rows: DataFrame) -> Counts:
    """Stage the rows of new events."""
    table = job.step.writes
    held = rows.persist()
    try:
        refuse_null_keys(job, held, table.key)
        if table.gates:
            judge(job, held, check_keys=False)
        if isinstance(table.write, Merge):
            written, kinds = compare_by_key(job, held, job.store.read(job.session, table, stage.base))
            if kinds:
                job.store.stage_changes(job.session, stage, written, insert_only=False)
            return Counts(sum(kinds.values()), stage.written, 0)
        if repeated := disputed_in_source(held, matched_columns(table), LIMIT):
            raise KeyViolation(
                f"{table.name}: stream {job.step.name} returns several rows for one key of one batch:"
                f"{rows_text(table, repeated)}",
                safe="nothing was published",
                to_go_on="deduplicate in the function, or correct key= of the table",
            )
        job.store.stage_changes(job.session, stage, held, insert_only=True)
        return Counts(stage.written, stage.written, 0)
    finally:
        held.unpersist()
