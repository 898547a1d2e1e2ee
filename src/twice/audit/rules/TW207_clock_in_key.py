"""The time of the run is part of the key.

`md5(concat(id, current_timestamp()))`, a dbt `unique_key` that holds `loaded_at`, a merge on a column that the same
statement fills with `now()`, an id that ends in `datetime.now():%Y%m%d%H%M%S`.

**On the second run** no row finds its predecessor, because the clock has moved: the merge or the unique key that was
meant to prevent duplicates inserts everything again.

**Instead** build the key from what the source says about the row: its id, its business date, its version.

```sql
unique_key = ['account_id', 'balance_date']     -- not loaded_at
```

With `twice`: `Table(…, key=["account_id", "balance_date"])`, and `key_of(…)` for a surrogate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.stored import names_a_run, once, resolved
from twice.audit.vocabulary import is_day_column

SEVERITY = Severity.ERROR
_CALENDAR = re.compile(r"^(dim_?)?(dates?|calendar|days?)(_?dim(ension)?)?$", re.IGNORECASE)
_BY_KEY = frozenset({Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW, Mode.APPEND})


def check(job: Job) -> Iterator[Finding]:
    """Report clocks in key columns, merge conditions and unique keys."""
    reported: set[Place] = set()
    for write in job.writes:
        if write.query is None or write.mode not in _BY_KEY or write.target.is_scratch:
            continue
        for column in write.key:
            if _is_calendar_row(write, column):
                continue
            made = resolved(write.query, column)
            clock = next((origin for _, origin in made.find("clock")), None) if made is not None else None
            if clock is None:
                continue
            place = job.dbt.place if job.dbt is not None and write.origin == "model" else clock.place
            reported |= {place, clock.place}
            yield _report(place, clock.name, column, write.target.name)
    for use in once(job.used("clock", "key")):
        if use.place in reported or names_a_run(use.column) or (use.write is not None and use.write.target.is_scratch):
            continue
        if use.write is not None and _is_calendar_row(use.write, use.column):
            continue
        yield _report(use.place, use.name, use.column, use.write.target.name if use.write is not None else "")


def _is_calendar_row(write: Write, column: str) -> bool:
    """Return whether today's row is put into a table of days: its key is the day, and a rerun finds it there."""
    by_key = write.mode in {Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW}
    return by_key and is_day_column(column) and bool(_CALENDAR.search(write.target.last))


def _report(place: Place, clock: str, column: str, table: str) -> Finding:
    return finding(
        __name__,
        place,
        f"`{column or 'the key'}` holds `{clock}`, so on a rerun no row of {table or 'the table'} finds its "
        "predecessor and everything is inserted again",
        instead="build the key from the row's own id, business date or version",
        with_twice="Table(…, key=[…]) with columns that come from the source",
    )
