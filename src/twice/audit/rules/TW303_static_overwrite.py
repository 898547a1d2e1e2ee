"""A partitioned table is overwritten without dynamic mode or replaceWhere.

Spark's default is the *static* mode: `mode("overwrite")` with `partitionBy` empties all partitions, also those for
which the run brings no rows. A run for one day then leaves one day. It is a warning, because the mode may be set on
the cluster where the file does not show it; a job whose correctness hangs on that is better off saying it.

The dynamic mode holds for files at a path, for `insertInto` and for Delta tables. `saveAsTable` recreates every
other table, Iceberg's included: all partitions are gone whatever the mode says.

A rebuild of all partitions is fine and not reported.

**Instead**:

    # Spark
    df.write.option("partitionOverwriteMode", "dynamic").mode("overwrite").partitionBy("event_date").parquet(…)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    df.write.insertInto("core.events", overwrite=True)        # after the setting, not saveAsTable
    df.writeTo("lake.core.events").overwritePartitions()
    df.write.format("delta").mode("overwrite").option("replaceWhere", "event_date = '…'").save(…)
    # twice
    Table("lake.core.events", partition=Day("event_date"), key=[…], write=Overwrite())
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, is_staging
from twice.audit.rules.windows import dates_in, is_dynamic, makes_anew, window_of

SEVERITY = Severity.WARNING

# In Hive, PARTITION (day) is always dynamic.
_HIVE = re.compile(r"\bSTORED\s+AS\b|\bROW\s+FORMAT\b|\bSET\s+hive\.|\bhiveconf\b|\bLOAD\s+DATA\b", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Look at overwrites whose partitions are not named."""
    for write in job.writes:
        if is_record(write.target) or is_staging(write.target) or dates_in(write.target):
            continue
        window = window_of(write)
        if window is None or not window.closed:
            continue
        if makes_anew(job, write):
            yield finding(
                __name__,
                write.place,
                f"saveAsTable recreates {write.target.name or 'the table'} whatever the overwrite mode says: a run "
                f"for one {window.value} leaves only its rows (but for Delta tables, which keep the other partitions)",
                instead="insertInto(…, overwrite=True) in dynamic mode, writeTo(…).overwritePartitions(), or a Delta "
                "table",
                with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite())',
            )
        if not (_is_static(job, write) or _is_static_sql(job, write)):
            continue
        columns = ", ".join(name for name, _ in write.partition) or "all of them"
        yield finding(
            __name__,
            write.place,
            f"in Spark's default static mode a run for one {window.value} empties every partition ({columns}) of "
            f"{write.target.name or 'the target'}, not only the one that it writes",
            instead=_instead(write),
            with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite())',
        )


def _instead(write: Write) -> str:
    if write.api == "saveAsTable" and "delta" not in write.format:
        return (
            "insertInto(…, overwrite=True) in dynamic mode, writeTo(…).overwritePartitions(), or a Delta table; the "
            "mode alone does not help, because saveAsTable recreates other tables"
        )
    return (
        'set spark.sql.sources.partitionOverwriteMode to "dynamic" (session or writer option), or use '
        "overwritePartitions() or replaceWhere"
    )


def _is_static(job: Job, write: Write) -> bool:
    if write.mode is not Mode.OVERWRITE or write.dynamic or write.or_replace:
        return False
    return bool(write.partition) or (write.api == "insertInto" and not is_dynamic(job))


def _is_static_sql(job: Job, write: Write) -> bool:
    """Return whether it is `INSERT OVERWRITE … PARTITION (day)` of Spark, without a setting that makes it dynamic."""
    return (
        write.mode is Mode.OVERWRITE_PARTITIONS
        and write.via == "sql"
        and job.dialect in {"spark", "spark2", "databricks", ""}
        and (job.language != "sql" or job.dialect != "")
        and not (job.language == "sql" and _HIVE.search(job.text))
        and bool(write.partition)
        and all(value is None for _, value in write.partition)
        and not write.dynamic
        and not is_dynamic(job)
    )
