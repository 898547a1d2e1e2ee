"""TRUNCATE, then INSERT: readers see an empty table, and a crash leaves one.

Between the two statements there is nothing in the table; when the insert fails, it stays empty until a rerun succeeds.
A transaction does not help everywhere: on MySQL, Oracle, Redshift, Snowflake and others TRUNCATE commits by itself.
Postgres and SQL Server take it back, so there a transaction around both is fine and not reported. A staging table
that only the next step reads is reported as info.

**Instead**:

    -- SQL
    CREATE OR REPLACE TABLE t AS SELECT …          -- Snowflake, BigQuery, Databricks
    BEGIN; DELETE FROM t; INSERT INTO t SELECT …; COMMIT;
    BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; COMMIT;
    # Spark
    df.writeTo("t").createOrReplace()
    # twice
    Table("…", key=[…], write=Whole())
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import committed_between, is_record, is_staging, removed_before
from twice.audit.rules.TW302_whole_overwrite import replaces_all_by_part

SEVERITY = Severity.WARNING

_COMMITS_BY_ITSELF = frozenset(
    {"mysql", "oracle", "redshift", "snowflake", "hive", "bigquery", "databricks", "teradata"}
)


def check(job: Job) -> Iterator[Finding]:
    """Look at the first insert that follows a truncate of the same table."""
    told: set[int] = set()
    for write in job.writes:
        if write.mode is not Mode.APPEND or is_record(write.target):
            continue
        before = removed_before(job, write)
        if before is None or before.mode is not Mode.TRUNCATE or _is_held(job, before, write):
            continue
        if replaces_all_by_part(job, write) is not None or before.order in told:
            continue
        told.add(before.order)
        name = write.target.name or "the table"
        yield finding(
            __name__,
            before.place,
            f"{name} is empty from this TRUNCATE until the insert on line {write.place.line} is done: readers see "
            "nothing, and a run that fails in between leaves nothing",
            severity=Severity.INFO if is_staging(write.target) else None,
            instead="replace it in one statement (CREATE OR REPLACE TABLE … AS, INSERT OVERWRITE), or DELETE and "
            "INSERT in one transaction, or fill a second table and rename",
            with_twice='Table("…", key=[…], write=Whole())',
        )


def _is_held(job: Job, before: Write, write: Write) -> bool:
    """Return whether one transaction holds both, on a database that can take a TRUNCATE back."""
    together = before.transaction is not None and before.transaction == write.transaction
    together = together and not committed_between(job, before, write)
    return together and before.task == write.task and job.dialect not in _COMMITS_BY_ITSELF
