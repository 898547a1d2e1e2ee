"""The first row is taken where nothing says which is first.

`first`, `last` or `any_value` in an aggregation, or `FIRST_VALUE` over a window without `ORDER BY`.

**On the second run** Spark or the warehouse may read the rows in another order: after a compaction, on another
cluster, after a lost executor. The same input gives another value. Sorting before `groupBy` does not help: the
shuffle does not keep the order.

**Instead** say which row is meant:

```python
orders.groupBy("customer_id").agg(F.max_by("city", "ordered_at"))
```

```sql
FIRST_VALUE(channel) OVER (PARTITION BY user_id ORDER BY started_at, session_id)
```

pandas takes the first row in the order in which it read them: `info`, unless they were sorted before.

If all values of a group are equal, `MAX` says so without a doubt.

With `twice`: `F.max_by(F.struct("*"), "updated_at")` in the step.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding
from twice.audit.rules.TW604_arbitrary_duplicate import is_sorted

SEVERITY = Severity.WARNING
_PICKS = frozenset({"first", "last", "any_value", "first_value", "last_value", "arbitrary"})


def check(job: Job) -> Iterator[Finding]:
    """Look at aggregations and windows that pick a row without an order."""
    for query, write in feeding(job):
        in_order = "pandas" in {query.language, write.via}  # pandas takes the first that it read
        for column, node in _picks(query):
            if in_order and is_sorted(query):
                continue
            yield finding(
                __name__,
                node.place,
                f"`{node.name}` takes `{column}` from the row that is read first, so a rerun over the same input may "
                f"store another value in {write.target.name or 'the table'}",
                instead=f"max_by({column}, updated_at), or an ORDER BY that decides",
                with_twice=f'F.max_by("{column}", "updated_at") in the step',
                severity=Severity.INFO if in_order else None,
            )


def _picks(query: Query) -> Iterator[tuple[str, Expr]]:
    # A pivot gives each cell one row in nearly all jobs; there is nothing to order.
    if getattr(query, "pivot", False):
        return
    grouped = bool(query.group_by) or query.grouped
    for top in query.columns:
        inside_window: set[int] = set()
        for node in top.expr.walk():
            if node.kind == "window":
                inside_window.update(id(arg) for arg in node.args)
            if node.name not in _PICKS or node.order_by or id(node) in inside_window:
                continue
            if node.kind == "window" or (node.kind == "call" and grouped and (node.args or node is top.expr)):
                yield next(iter(node.columns()), top.name), node
