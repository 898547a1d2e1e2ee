"""Rows are appended, although the code does not say so.

Some writers append by default: Glue's sinks, `S3ToRedshiftOperator`, `COPY` of Redshift and
Postgres, `LOAD DATA`, `insertInto`, a helper whose argument defaults to `mode="append"`; `to_sql(if_exists="append")`
does it on request. The second run adds the same rows again.

Snowflake's and Databricks' `COPY INTO` remember the files that they have loaded, and are reported only with FORCE.

**Instead**, empty what is loaded first, in the same transaction, or load into a staging table and merge:

    -- SQL
    BEGIN; DELETE FROM core.orders WHERE order_date = '2026-04-25'; COPY core.orders FROM 's3://…'; COMMIT;
    LOAD DATA INPATH '…' OVERWRITE INTO TABLE raw.clicks PARTITION (dt = '…');
    # Airflow
    S3ToRedshiftOperator(…, method="UPSERT", upsert_keys=["order_id"])
    # Spark
    df.write.mode("overwrite").insertInto("core.visits")       # with partitionOverwriteMode = dynamic
    # twice
    Table("…", partition=Day("…"), key=[…], write=Overwrite())
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import doubles, is_implicit

SEVERITY = Severity.ERROR

_REMEMBERS_FILES = frozenset({"snowflake", "databricks", "spark"})
_COPY_INTO = re.compile(r"\bCOPY\s+INTO\b", re.IGNORECASE)  # Redshift's and Postgres' COPY has no INTO


def check(job: Job) -> Iterator[Finding]:
    """Look at the appends that are a default."""
    for write in job.writes:
        if write.via in {"jdbc", "dbt"} or not is_implicit(write) or _remembers(job, write):
            continue
        if doubles(job, write):
            how = write.api or write.via
            yield finding(
                __name__,
                write.place,
                f"{how} appends here, so a second run adds the same rows to {write.target.name or 'the target'} again",
                instead="delete what is loaded first, in the same transaction, or load a staging table and merge it, "
                "or use the form that replaces (OVERWRITE, method='UPSERT', if_exists='replace' for a full load)",
                with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite())',
            )


def _remembers(job: Job, write: Write) -> bool:
    """Return whether the database skips files that it has loaded before."""
    if write.via != "copy":
        return False
    said = " ".join(job.line(number) for number in (write.place.line, write.place.line + 1))
    by_dialect = job.dialect in _REMEMBERS_FILES or bool(_COPY_INTO.search(said))
    return by_dialect and write.options.get("force", "false").lower() == "false"
