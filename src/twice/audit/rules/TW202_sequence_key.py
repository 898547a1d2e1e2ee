"""The database counts, and the table is loaded again.

A sequence, an identity or serial column, or `MAX(id) + 1` gives the key of a table that each run replaces or adds to.

**On the second run** the counter continues where it stopped: the same rows come back with other keys, and everything
that stored the first ones points to nothing or, worse, to another row. Days that are loaded in another order are
numbered otherwise.

**Instead** compute the key from what identifies the row, or give numbers only to rows that are not there yet:

```sql
MERGE INTO dim_store t USING (SELECT DISTINCT store_no FROM staging) s ON t.store_no = s.store_no
WHEN NOT MATCHED THEN INSERT (store_sk, store_no) VALUES (nextval('store_seq'), s.store_no)
```

With `twice`: `key_of("store_no")`.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write, same_table
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.stored import declares, lasting, once, refilled, updates_too
from twice.audit.vocabulary import is_key_column, is_time_column

SEVERITY = Severity.ERROR
_FINDS_ITS_ROWS = frozenset({Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW, Mode.UPDATE})


def check(job: Job) -> Iterator[Finding]:
    """Report counters in queries, and identity columns of tables that the file empties and fills."""
    for use in once(job.used("sequence", "key", "stored")):
        if use.write is None or not lasting(use.write):
            continue
        given_again = _numbers_all(job, use.write) or updates_too(job, use.write, use.column)
        if use.write.mode in _FINDS_ITS_ROWS and not given_again:
            continue
        if declares(use.write):
            continue
        if use.context == "key" or is_key_column(use.column):
            yield _report(use.place, use.name, use.column, use.write)
    yield from _numbered_on(job)
    for create in job.writes:
        if declares(create) and not create.target.is_scratch:
            yield from _identities(job, create)


def _numbers_all(job: Job, write: Write) -> bool:
    """Return whether an UPDATE of all rows numbers a table that the same file has just made or emptied."""
    if write.mode is not Mode.UPDATE or write.predicate is not None:
        return False
    return any(one.query is not None or one.mode in {Mode.DROP, Mode.TRUNCATE} for one in job.earlier(write))


def _numbered_on(job: Job) -> Iterator[Finding]:
    """Yield keys that continue from the highest one of the table."""
    counted = {use.column for use in job.used("counter")}
    for use in once(job.used("watermark", "key", "stored")):
        write = use.write
        if write is None or write.mode in _FINDS_ITS_ROWS or not lasting(write) or use.column in counted:
            continue
        counts = use.name.lower() == f"max({use.column})" and not is_time_column(use.column)
        numbers = is_key_column(use.column) or counts
        if numbers and same_table(use.detail, write.target.name):
            yield _report(use.used_at, use.name, use.column, write)


def _identities(job: Job, create: Write) -> Iterator[Finding]:
    """Yield the counted columns of a table that is emptied and filled below."""
    for column, expr in create.assignments:
        origin = next((origin for _, origin in expr.find("sequence")), None)
        if origin is None:
            continue
        fill = refilled(job, create, column)
        if fill is not None:
            yield _report(origin.place, origin.name, column, fill)


def _report(place: Place, name: str, column: str, write: Write) -> Finding:
    table = write.target.name or "the table"
    return finding(
        __name__,
        place,
        f"`{name}` numbers the rows of {table} again when they are reloaded, so the same row gets another "
        f"`{column or 'key'}`",
        instead="hash what identifies the row, or number in a MERGE that inserts only what is not there yet",
        with_twice="key_of(…) of the columns that identify the row",
    )
