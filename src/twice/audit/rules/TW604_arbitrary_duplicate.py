"""Of several rows one is kept, and nothing says which.

`dropDuplicates(["order_id"])`, or `DISTINCT ON (order_id)` without an order behind it, while the rows have other
columns too.

**On the second run** another of the rows may be kept, because the engine keeps the one that it sees first:
yesterday's status today, today's tomorrow. Sorting before `dropDuplicates` does not help: the shuffle does not keep
the order.

**Instead** choose by a version:

```python
newest = F.max_by(F.struct("*"), "updated_at").alias("o")
orders.groupBy("order_id").agg(newest).select("o.*")
```

```sql
SELECT DISTINCT ON (order_id) * FROM orders ORDER BY order_id, updated_at DESC, delivery_no DESC
```

With `twice`: `Table(…, key=["order_id"], write=Merge(version="updated_at"))` keeps the highest version by itself.

pandas keeps the first row in the order in which it read them, which is as steady as its input: `info`, unless the rows
were sorted before.

**Not meant** are rows that are equal in all columns, and keys without other columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look at de-duplications on some of the columns."""
    for query, write in feeding(job):
        if not query.distinct_on or query.streaming:
            continue
        in_order = "pandas" in {query.language, write.via}  # pandas keeps the first that it read
        if in_order and is_sorted(query):
            continue
        keys = {name.lower() for name in query.distinct_on}
        if (
            _nothing_else(query, keys)
            or _only_keys_used(write, query, keys)
            or (query.language == "sql" and len(query.order_by) > len(query.distinct_on))
        ):
            continue
        named = ", ".join(query.distinct_on)
        yield finding(
            __name__,
            query.distinct_place,
            f"of several rows with the same {named} any one is kept, so a rerun over the same input may store another "
            f"one in {write.target.name or 'the table'}",
            instead=f"keep the newest: row_number() over (partition by {named} order by updated_at desc, …) = 1, or "
            "max_by",
            with_twice='write=Merge(version="updated_at"), or F.max_by(F.struct("*"), "updated_at") in the step',
            severity=Severity.INFO if in_order else None,
        )


def is_sorted(query: Query) -> bool:
    """Return whether rows of pandas are sorted before one of them is taken."""
    return any(one.order_by for one in query.walk())


def _only_keys_used(write: Write, query: Query, keys: set[str]) -> bool:
    """Return whether the query around it takes nothing but the compared columns: it counts, or lists keys."""
    for outer in write.query.walk() if write.query is not None else ():
        if any(source.query is query for source in outer.sources) and len(outer.sources) == 1:
            taken = {name for expr in outer.expressions() for name in expr.columns()}
            return "*" not in {column.name for column in outer.columns} and bool(taken) and taken <= keys
    return False


def _nothing_else(query: Query, keys: set[str]) -> bool:
    """Return whether the rows have no other columns than those that are compared."""
    one: Query | None = query
    for _ in range(20):
        if one is None:
            return False
        names = {column.name for column in one.columns}
        if names and "*" not in names:
            return names <= keys
        if names - {"*"} - keys:
            return False
        grouped = {name for expr in one.group_by for name in expr.columns()}
        if grouped and grouped <= keys:
            return True
        below = [source.query for source in one.sources]
        one = below[0] if len(below) == 1 else None
    return False
