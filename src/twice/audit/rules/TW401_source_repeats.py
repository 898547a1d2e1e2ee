"""The source of a merge may hold a key more than once.

A feed delivers a row again when it changes, and again when it is sent twice. If two source rows match one target row,
Delta, Snowflake, BigQuery and SQL Server fail the MERGE, others let the last one win, whichever that is; two rows for
a new key are both inserted, and from then on every run fails or doubles.

A join does the same when it finds several rows for one key: the lines of an order, the days of a member. That holds
for dbt models with a `unique_key`, too. It is only reported where the query shows it: a dimension that is joined by
its key is none.

**Instead**, keep one row per key, chosen by an order without ties:

    -- SQL
    USING (SELECT * FROM raw.changes
           QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY changed_at DESC, change_id DESC) = 1) AS s
    # Spark
    newest = Window.partitionBy("id").orderBy(F.col("changed_at").desc(), F.col("change_id").desc())
    df.withColumn("n", F.row_number().over(newest)).where("n = 1").drop("n")
    # twice
    Table("…", key=["id"], write=Merge(version="changed_at")): repeated keys are refused before anything is written
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.queries import Query, Source
from twice.audit.rules import finding
from twice.audit.rules.fanning import fanned_out
from twice.audit.rules.merging import checks_key, key_text, merges, pairs, raw_source, source_of
from twice.audit.rules.uniqueness import matches_first_only, one_row_per

SEVERITY = Severity.WARNING
_FEW = 3


def check(job: Job) -> Iterator[Finding]:
    """Look at every merge whose source is read from a feed."""
    for write in merges(job):
        source = repeated_source(job, write)
        if source:
            key = key_text(write)
            yield finding(
                __name__,
                write.place,
                f"{source} may bring a {key} twice, and nothing keeps one row of it: the merge into "
                f"{write.target.name or 'the table'} fails, or takes an arbitrary one",
                instead=f"keep one row per {key}: ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY <version> DESC) = 1",
                with_twice='Table("…", key=[…], write=Merge(version="…")) refuses repeated keys',
            )
        else:
            yield from _joined(job, write)
    for write in _merged_models(job):
        yield from _joined(job, write)


def _joined(job: Job, write: Write) -> Iterator[Finding]:
    """Look at the joins under a merge, or under a dbt model that is merged by its unique_key."""
    join = repeating_join(job, write)
    if join is not None:
        key = ", ".join(write.key) if job.dbt is not None else key_text(write)
        yield finding(
            __name__,
            write.place,
            f"the join in line {join.place.line} may find several rows for one {key}, and nothing keeps one of them: "
            f"the merge into {write.target.name or 'the table'} fails, or takes an arbitrary one",
            instead=f"join by the whole key, or aggregate what is joined to one row per {key} first",
            with_twice='Table("…", key=[…], write=Merge(version="…")) refuses repeated keys',
        )


def repeating_join(job: Job, write: Write) -> Source | None:
    """Return the join that may bring several rows for one key of a merge."""
    if write.key_checked or checks_key(job):
        return None
    keys = write.key if job.dbt is not None else tuple(pair.source for pair in pairs(write))
    return fanned_out(write.query, keys)


def _merged_models(job: Job) -> Iterator[Write]:
    """Yield the model of a dbt file that is merged: repeated keys are another matter where rows are deleted first."""
    if job.dbt is not None and job.dbt.strategy in {"", "merge"}:
        yield from (write for write in job.writes if write.origin == "model" and write.incremental and write.merge)


def repeated_source(job: Job, write: Write) -> str:
    """Return the name of the feed that is merged as it came, or nothing."""
    if write.literal_rows or (write.query is None and not write.stream_batch_id):
        return ""
    if write.merge is not None and write.merge.conflict and write.mode is Mode.INSERT_NEW:
        return ""  # DO NOTHING: the second row of a key is left out like the second run's
    if write.key_checked or checks_key(job):
        return ""
    query = source_of(job, write)
    on = write.merge.on if write.merge is not None else None
    unique = one_row_per(query) is not None and not _distinct_beside_key(query, write)
    if query is not None and (unique or matches_first_only(query, on)):
        return ""
    if write.stream_batch_id or write.stream:
        return "the micro-batch"
    return raw_source(query)


def _distinct_beside_key(query: Query | None, write: Write) -> bool:
    """Return whether SELECT DISTINCT only removes rows that are equal in much more than the key."""
    if query is None or not query.distinct or query.distinct_on is not None or query.group_by:
        return False
    keys = {pair.source for pair in pairs(write)}
    given = [column for column in query.columns if column.name in keys]
    made_of = {name for column in given for name in column.expr.columns()}
    beside = [column for column in query.columns if column not in given and set(column.expr.columns()) - made_of]
    return len(given) == len(keys) > 0 and len(beside) >= _FEW
