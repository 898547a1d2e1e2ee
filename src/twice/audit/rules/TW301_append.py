"""Rows are appended, and nothing removes those of the earlier run.

`mode("append")`, `writeTo(…).append()` and a bare `INSERT INTO` add their rows to whatever is there. When the job
runs a second time for the same day (a retry, a double start, a backfill), the day is there twice; when it failed
partway, its first rows are there twice.

An append is right after a delete of the same rows in the same transaction, into temporary tables and into logs that
hold one row per run; those are not reported. A delete that happens at times only (`if full_refresh:`) excuses
nothing, and neither does a name: rows of a source in `call_logs` or `notifications` are data, and a warning.

**Instead**, replace exactly what the run computes:

    # Spark
    df.writeTo("core.orders").overwritePartitions()
    df.write.format("delta").mode("overwrite").option("replaceWhere", "order_date = '2026-04-25'").saveAsTable(…)
    -- SQL
    BEGIN; DELETE FROM t WHERE order_date = :day; INSERT INTO t SELECT … WHERE order_date = :day; COMMIT;
    # twice
    orders = Table("lake.core.orders", partition=Day("order_date"), key=["order_id"], write=Overwrite())
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import doubles, is_implicit
from twice.audit.rules.records import brings_data
from twice.audit.rules.windows import window_of

SEVERITY = Severity.ERROR

# These have rules of their own: JDBC, dbt, and what appends without saying so.
_ELSEWHERE = frozenset({"jdbc", "dbt"})


def check(job: Job) -> Iterator[Finding]:
    """Look at every append that is written as one."""
    told: set[tuple[str, str]] = set()
    for write in job.writes:
        if write.via in _ELSEWHERE or is_implicit(write):
            continue
        if doubles(job, write):
            if write.literal_rows and (write.target.name, write.function) in told:  # one list of rows, many INSERTs
                continue
            told.add((write.target.name, write.function))
            fails = write.unique_constraint and not _numbers_rows(job, write)
            yield finding(
                __name__,
                write.place,
                _message(write, fails=fails),
                instead=_instead(write),
                with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite()): there is no append',
                severity=Severity.WARNING if fails or brings_data(write) else None,
            )


def _message(write: Write, *, fails: bool) -> str:
    target = write.target.name or "the target"
    window = window_of(write)
    rows = f"the rows of {window.value}" if window is not None else "the same rows"
    if fails:
        return f"a second run inserts {rows} into {target} again and fails on its key"
    return f"a second run adds {rows} to {target} again, because nothing removes what the first one wrote"


def _numbers_rows(job: Job, write: Write) -> bool:
    """Return whether the file creates the target with a key that the database counts up: it never collides."""
    return any(
        value.has("sequence") or value.has("random") for one in job.earlier(write) for _, value in one.assignments
    )


def _instead(write: Write) -> str:
    window = window_of(write)
    if write.via in {"sql", "dbapi"}:
        column = window.column if window is not None and window.column else "<window column>"
        return f"in one transaction: DELETE FROM {write.target.name or 't'} WHERE {column} = …; then this INSERT"
    return 'overwrite what the run computes: .writeTo(t).overwritePartitions(), or mode("overwrite") with replaceWhere'
