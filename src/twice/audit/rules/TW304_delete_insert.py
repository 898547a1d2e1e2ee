"""DELETE and INSERT are not one transaction.

Deleting a window and inserting it again is safe to repeat, but only if both happen or neither. With a commit between
them, in two tasks, or where every statement commits by itself, a crash in the middle leaves the window empty,
readers see it empty, and two runs at once delete first and insert twice.

**Instead**:

    -- SQL
    BEGIN; DELETE FROM t WHERE day = :day; INSERT INTO t SELECT … WHERE day = :day; COMMIT;
    -- where there are no transactions: one statement
    INSERT OVERWRITE t PARTITION (day = '…') SELECT …      MERGE …      CREATE OR REPLACE TABLE …
    # Spark
    df.writeTo("t").overwritePartitions()      # or replaceWhere: one atomic commit
    # twice
    Table("serving.t", key=[…], write=Overwrite()): the store deletes and inserts in one transaction
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import (
    committed_between,
    deletes,
    in_other_routine,
    is_record,
    is_staging,
    removed_before,
)
from twice.audit.rules.TW302_whole_overwrite import replaces_all_by_part

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at every insert that follows a delete of the same table."""
    for write in job.writes:
        if write.mode is not Mode.APPEND or is_record(write.target):
            continue
        before = removed_before(job, write)
        # A staging table is refilled each time; one that keeps the other rows is more than that.
        if is_staging(write.target) and not _keeps_rows(before, write):
            continue
        if before is None or before.origin == "pre-hook" or in_other_routine(job, before, write):
            continue
        if not deletes(before) and not _dropped_by_other_task(before, write):
            continue
        apart = _apart(job, before, write)
        if apart and replaces_all_by_part(job, write) is None:
            name = write.target.name or "the table"
            yield finding(
                __name__,
                write.place,
                f"the rows of {name} are deleted on line {before.place.line} and inserted here, {apart}: a crash in "
                "between leaves them deleted, and two runs at once insert them twice",
                instead="put both between BEGIN and COMMIT, or write one statement that replaces them (MERGE, INSERT "
                "OVERWRITE, replaceWhere)",
                with_twice='Table("…", key=[…], write=Overwrite()) publishes in one transaction',
                severity=None if _is_sure(before, write) else Severity.WARNING,
            )


def _keeps_rows(before: Write | None, write: Write) -> bool:
    """Return whether only the keys that are inserted again are deleted: `WHERE id IN (SELECT id FROM batch)`."""
    predicate = before.predicate if before is not None else None
    return predicate is not None and any(
        part.name == "in" and arg.query is not None and set(arg.query.tables()) & set(write.sources)
        for part in predicate.conjuncts()
        for arg in part.args
    )


def _dropped_by_other_task(before: Write, write: Write) -> bool:
    """Return whether one task recreates the table and another fills it: a retry of the second alone fills it twice."""
    return before.mode is Mode.DROP and bool(before.task and write.task) and before.task != write.task


def _apart(job: Job, before: Write, write: Write) -> str:
    """Return how the two are separated, or nothing if they are not."""
    if before.task != write.task:
        return "in another task"
    if before.transaction is not None and before.transaction == write.transaction:
        return "after a commit" if committed_between(job, before, write) and write.via == "dbapi" else ""
    if committed_between(job, before, write):
        return "after a commit"
    if write.via == "pandas" and before.transaction is not None:
        return "over another connection" if write.options.get("connection") == "own" else ""
    if before.transaction is not None and write.transaction is not None:
        return "in another transaction"
    return "each committed by itself"


def _is_sure(before: Write, write: Write) -> bool:
    """A script that shows no transaction may still be run inside one."""
    return before.task != write.task or write.commit_between or write.via != "sql"
