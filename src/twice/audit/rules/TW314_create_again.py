"""A table is created without IF NOT EXISTS or OR REPLACE.

The second run finds the table of the first and fails: `CREATE TABLE t AS SELECT …`, `writeTo("t").create()`. Nothing
is corrupted, but no retry helps until a person drops the table by hand, perhaps the wrong one.

Temporary tables, tables that the job drops first, those that it only creates after a look whether they are there (a
query of the catalog, `has_table`, a `try` that passes over the error), and schema files that only create are not
reported.

**Instead**:

    -- SQL
    CREATE OR REPLACE TABLE t AS SELECT …
    DROP TABLE IF EXISTS t; CREATE TABLE t AS SELECT …       -- in one transaction, where DDL has one
    CREATE TABLE IF NOT EXISTS t (…); then replace the rows of the window
    # Spark
    df.writeTo("t").createOrReplace()
    # twice
    tables are created by the first run and found by the next
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Target, Write
from twice.audit.rules import finding
from twice.audit.rules.removals import removes_files

SEVERITY = Severity.WARNING

_FILLS = frozenset({Mode.APPEND, Mode.UPSERT, Mode.MERGE, Mode.INSERT_NEW})
_REPLACES_ROWS = frozenset({Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS})


def check(job: Job) -> Iterator[Finding]:
    """Look at every CREATE TABLE of a file that also brings rows."""
    for write in job.writes:
        if write.mode is Mode.CREATE and (
            _fails_again(job, write) or _is_index_again(job, write) or _is_object_again(job, write)
        ):
            yield finding(
                __name__,
                write.place,
                f"a second run fails here, because {write.target.name or 'the table'} exists since the first",
                instead="CREATE OR REPLACE TABLE … AS, or CREATE TABLE IF NOT EXISTS and replace the window's rows",
                with_twice="declare the Table: the first run creates it, the next ones find it",
            )


def _is_index_again(job: Job, write: Write) -> bool:
    """Return whether an index is created on a table that a second run finds with it, in a file that also adds rows."""
    if write.api != "CREATE INDEX" or write.if_not_exists or not write.target.name:
        return False
    if not any(other.mode in _FILLS for other in job.writes):
        return False
    table = Target(write.options.get("table", ""))
    before = [one for one in job.writes if one.order < write.order and one.target.same(table)]
    return not table.name.startswith("#") and not any(
        one.target.temporary
        or one.mode in {Mode.DROP, Mode.OVERWRITE}
        or (one.mode is Mode.CREATE and not one.if_not_exists)
        for one in before
    )


def _is_object_again(job: Job, write: Write) -> bool:
    """Return whether a task, stream or pipe is made once only in a script that replaces all else that it makes."""
    if write.api not in _OBJECTS or not _REPLACES.search(job.text):
        return False
    return not any(other.mode is Mode.DROP for other in job.earlier(write))


_OBJECTS = frozenset({"CREATE TASK", "CREATE STREAM", "CREATE PIPE"})
_REPLACES = re.compile(r"^\s*CREATE\s+OR\s+REPLACE\b", re.IGNORECASE | re.MULTILINE)


def _fails_again(job: Job, write: Write) -> bool:
    if write.if_not_exists or write.or_replace or write.target.temporary or write.guarded_by or write.conditional:
        return False
    if write.target.kind not in {"table", "path"} or write.incremental or write.origin == "model":
        return False
    if any(other.mode in {Mode.DROP, Mode.OVERWRITE} for other in job.earlier(write)) or removes_files(job, write):
        return False
    after = list(job.later(write))
    return not any(other.mode in {Mode.DROP, Mode.ALTER} for other in after) and _is_filled(job, write, after)


def _is_filled(job: Job, write: Write, after: Sequence[Write]) -> bool:
    """Return whether the file that creates a table also brings its rows, on every run."""
    fills = [other for other in after if other.mode in _FILLS]
    if write.query is None and any(branch not in fill.branches for fill in fills for branch in write.branches):
        return False  # Python first checks whether it exists, or gets that as a value: if not rows: CREATE TABLE …
    replaced = any(other.mode in _REPLACES_ROWS for other in (*after, *job.earlier(write)))
    # Hive: CREATE TABLE t (…), and INSERT OVERWRITE fills it.
    return write.query is not None or bool(fills) or (replaced and job.language == "sql")
