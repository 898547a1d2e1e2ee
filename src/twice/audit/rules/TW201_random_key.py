"""A random value is the key.

`uuid4()`, `uuid()`, `gen_random_uuid()`, `NEWID()` or `rand()` fills a column that identifies the row.

**On the second run** every row gets another key. Whatever stored the first one (facts, exports, bookmarks, another
system) points to nothing; a merge on the key matches nothing and inserts everything again. In Spark not even one run
is safe: a lost executor computes its rows again, with other keys.

**Instead** compute the key from what identifies the row:

```python
orders.withColumn("order_key", F.sha2(F.concat_ws("|", "shop_id", "order_no"), 256))
```

```sql
uuid_generate_v5(:namespace, shop_id || '/' || order_no)
```

With `twice`: `key_of("shop_id", "order_no")`, the same in Python (`key_hash`), as a column and in SQL.

**Not meant**: uuids of a run or a batch, names of temporary files, salts against skew, name-based uuids (`uuid5`),
and keys that a merge gives only to rows that are not there yet, unless the job empties the table before, or
the merge updates all columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Use
from twice.audit.rules import finding
from twice.audit.rules.stored import (
    as_written,
    declares,
    emptied_whole,
    filled,
    names_a_run,
    once,
    outlives,
    updates_too,
)
from twice.audit.vocabulary import is_key_column

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Report random values in key columns."""
    for use in once(use for use in job.used("random", "key", "stored", "join", "partition") if _is_key(job, use)):
        column = f"`{use.column}`" if use.column else "the key"
        into = f" of {use.write.target.name}" if use.write is not None and use.write.target.name else ""
        yield finding(
            __name__,
            use.place,
            f"`{as_written(job, use)}` gives every row another {column}{into} on each run, so whatever stored the "
            "first one points to nothing",
            instead='compute it from what identifies the row: sha2(concat_ws("|", …), 256), or a name-based uuid '
            "(uuid5)",
            with_twice="key_of(…) of the columns that identify the row",
        )


def _is_key(job: Job, use: Use) -> bool:
    if use.write is not None:
        anew = emptied_whole(job, use.write) or updates_too(job, use.write, use.column)
        if "insert only" in use.detail and not anew:
            return False
        if declares(use.write):
            return is_key_column(use.column) and filled(job, use.write, use.column) is not None
        if outlives(job, use.write) is None:
            return False
        # An upsert that finds its rows by other columns gives the value to new rows only.
        by_key = use.write.mode in {Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW}
        if by_key and use.write.key and use.column not in use.write.key and not anew:
            return False
    if names_a_run(use.column):
        return False
    return use.context == "key" or is_key_column(use.column)
