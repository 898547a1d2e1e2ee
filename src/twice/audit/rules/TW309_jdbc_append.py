"""Rows are appended to a database over JDBC.

Spark writes the partitions of a DataFrame over several connections, each with its own transaction. A task that is
retried writes its part again, a job that fails partway has committed some parts, and a second run adds everything
once more.

**Instead**, write to a staging table, then move the rows in one transaction of the database:

    df.write.mode("overwrite").option("truncate", "true").jdbc(url, "staging.totals", properties=…)
    -- then, in the database
    BEGIN; DELETE FROM totals WHERE day = :day; INSERT INTO totals SELECT * FROM staging.totals; COMMIT;
    # twice
    Table("serving.totals", key=["day", "region"], write=Overwrite()) with a SQL store
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import doubles, is_staging

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at every JDBC write."""
    for write in job.writes:
        if write.via == "jdbc" and doubles(job, write, in_batches=_only_labelled(write)):
            name = write.target.name or "the database table"
            yield finding(
                __name__,
                write.place,
                f"a second run adds the same rows to {name} again, and a retried Spark task its part of them",
                instead="overwrite a staging table over JDBC, then DELETE the window and INSERT … SELECT from it in "
                "one transaction, or upsert by key",
                with_twice='Table("serving.…", key=[…], write=Overwrite()) with a SQL store',
            )


def _only_labelled(write: Write) -> bool:
    """Return whether a micro-batch stores its number without looking for it: JDBC has nothing that refuses a repeat."""
    batch = write.batch_id_used if write.stream_batch_id else write.stream  # without the number it is TW701
    return batch and not write.checkpointed and not is_staging(write.target)
