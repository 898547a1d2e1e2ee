"""Nothing checks that the source of a merge has one row per key.

The source is a table or a join whose rows the file says nothing about: no grouping, no constraint, no count of
duplicates. It may well be unique today; the merge hangs on it staying so. This is information, not a warning.

**Instead**, say it where a machine checks it:

    -- SQL
    CREATE UNIQUE INDEX … ; or fail the job: SELECT id FROM source GROUP BY id HAVING COUNT(*) > 1
    # dbt
    columns: [{name: id, tests: [unique, not_null]}]
    # twice
    Table("…", key=["id"], …): the key is checked before every publish
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode
from twice.audit.rules import finding
from twice.audit.rules.merging import checks_key, key_text, merges, source_of
from twice.audit.rules.TW401_source_repeats import repeated_source, repeating_join
from twice.audit.rules.uniqueness import one_row_per

SEVERITY = Severity.INFO


def check(job: Job) -> Iterator[Finding]:
    """Look at merges whose source is not known to be unique, nor known to repeat keys."""
    if checks_key(job):
        return
    for write in merges(job):
        if write.mode is not Mode.MERGE or write.query is None or write.literal_rows:
            continue
        if write.unique_constraint or write.key_checked:
            continue
        if repeated_source(job, write) or one_row_per(source_of(job, write)) is not None:
            continue
        if repeating_join(job, write) is not None:
            continue
        key = key_text(write)
        yield finding(
            __name__,
            write.place,
            f"nothing in this file says that the source has one row per {key}, which the merge into "
            f"{write.target.name or 'the table'} needs in every run",
            instead="check it before the merge (GROUP BY … HAVING COUNT(*) > 1), or declare a constraint or test",
            with_twice='Table("…", key=[…], …): the key is checked before every publish',
        )
