"""Insert what is not there yet: two runs at once both find it missing.

`INSERT … WHERE NOT EXISTS (SELECT … FROM t)`, `NOT IN` and an anti join before an append are safe one after the
other. Started twice at the same time, or retried while the first try still runs, both look, both find nothing, and
both insert. They also never correct a row that came wrong the first time.

The same holds when Python or a procedure looks a row up and inserts it if there is none, or passes over it if there
is one.

A unique constraint or a lock in the same file makes it safe, and is not reported.

**Instead**:

    -- SQL
    INSERT INTO t SELECT … ON CONFLICT (id) DO NOTHING               -- with a primary key on t
    MERGE t WITH (HOLDLOCK) USING … WHEN NOT MATCHED THEN INSERT …   -- SQL Server
    # Delta, Iceberg: MERGE checks for conflicting commits
    MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *
    # twice
    Table("…", key=["id"], write=InsertOnly())
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write, same_table
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, known_by, removed_before, was_done_before

SEVERITY = Severity.WARNING

_LOCK = re.compile(
    r"\b(HOLDLOCK|SERIALIZABLE|TABLOCKX|UPDLOCK|XLOCK|sp_getapplock|pg_(try_)?advisory\w*lock|LOCK\s+TABLES?|GET_LOCK)\b",
    re.IGNORECASE,
)

_NOT_THERE = re.compile(r"\bIF\s+NOT\s+EXISTS\s*\(\s*SELECT\b.*?\bFROM\s+([\w.\[\]\"`]+)", re.IGNORECASE | re.DOTALL)

# A row that says of a file or a day that it is done: what it stands for is guarded by it, not it by something else.
_MARKS = re.compile(r"(^|[._])(processed|loaded|imported|ingested|handled|seen|sent|done)(_|$)|migrations?$")


def check(job: Job) -> Iterator[Finding]:
    """Look at appends that leave out what the target has."""
    for write in job.writes:
        if write.mode is not Mode.APPEND or write.target.temporary or is_record(write.target):
            continue
        asked = _asks_first(write)
        known = known_by(write, job)
        if known is None and not asked:
            continue
        if write.unique_constraint or (was_done_before(write.guarded_by) and not asked):
            continue
        if removed_before(job, write) is not None or _LOCK.search(job.text):
            continue
        name = write.target.name or "the table"
        filters = known.filters if known is not None else []
        inside = next((part.place for part in filters if part.place.line > 1), write.place)
        yield finding(
            __name__,
            inside if job.dbt else write.place,
            f"two runs at the same time both find their rows missing in {name}, and both insert them: no constraint or "
            "lock stops the second",
            instead="a unique key on the table and ON CONFLICT DO NOTHING, or MERGE … WHEN NOT MATCHED THEN INSERT",
            with_twice='Table("…", key=[…], write=InsertOnly())',
        )


def _asks_first(write: Write) -> bool:
    """Return whether it only runs where its target was asked for the row; rows that the file names are not data."""
    asks = write.looked_up and not _MARKS.search(write.target.name)
    if not asks and not _is_under_not_exists(write):
        return False
    query = write.query
    return query is None or bool(query.sources) or any(not column.expr.is_constant for column in query.columns)


def _is_under_not_exists(write: Write) -> bool:
    """Return whether it stands under IF NOT EXISTS (SELECT … FROM its target …)."""
    found = _NOT_THERE.search(write.guarded_by)
    return found is not None and same_table(
        found[1].lower().strip('[]"`').replace("[", "").replace("]", ""), write.target.name
    )
