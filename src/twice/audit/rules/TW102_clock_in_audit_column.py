"""The wall clock fills an audit column.

A column such as `loaded_at`, `etl_updated_ts` or `dbt_updated_at` says when a row was loaded.

**On the second run** the column gets another value while nothing else changed. That is mostly accepted:
no query computes with it. But two runs can no longer be compared row by row, an unchanged row looks changed to whatever
watches the column, and a table that is chosen from by this column (TW106) passes the difference on.

**Instead** leave the column out and let the table's history say when a row was written, or fill it with the run's own
date:

```sql
SELECT order_id, amount, :run_date AS loaded_for FROM raw.orders
```

With `twice` write `Table(…, loaded_at=True)`: the framework fills `_twice_loaded_at`, and leaves it out when it
compares contents, so that a rerun that changes nothing commits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.stored import as_written, declares, once

SEVERITY = Severity.INFO


def check(job: Job) -> Iterator[Finding]:
    """Report each load time that comes from the clock."""
    for use in once(job.used("clock", "audit")):
        if use.write is not None and (use.write.target.is_scratch or declares(use.write)):
            continue
        column = "value of a column" if use.column == "{…}" else f"`{use.column}`" if use.column else "the audit column"
        yield finding(
            __name__,
            use.place,
            f"every run writes another {column} (`{as_written(job, use)}`), so a rerun changes rows in which nothing "
            "else changed",
            instead=f"leave {column} out, or fill it with the run's date or the source's own time",
            with_twice="Table(…, loaded_at=True) adds _twice_loaded_at, which comparisons leave out",
        )
