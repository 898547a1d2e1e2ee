"""Values are collected into a list in no order.

`collect_list`, `array_agg`, `string_agg`, `listagg` or `group_concat` without an order, and the result is stored.

**On the second run** the same values come in another order: the text or array differs though nothing changed, a
comparison says that the row was updated, and a hash over it is another key. `collect_set` has no order either.

**Instead** sort, or order inside the aggregate:

```python
F.sort_array(F.collect_list("sku"))
```

```sql
string_agg(tag, ',' ORDER BY tag)      -- or LISTAGG(…) WITHIN GROUP (ORDER BY …)
```

With `twice` write the same in the step.

**Not meant** is a list of which only the size or a member is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding

SEVERITY = Severity.WARNING
_COLLECTS = frozenset(
    {
        "collect_list",
        "collect_set",
        "array_agg",
        "array_unique_agg",
        "string_agg",
        "listagg",
        "group_concat",
        "json_agg",
        "jsonb_agg",
        "json_arrayagg",
    }
)
# What does not depend on the order of its list.
_ORDERLESS = frozenset(
    {
        "sort_array", "array_sort", "list_sort", "array_size", "size", "cardinality", "array_length", "len", "length",
        "array_contains", "arrays_overlap", "array_max", "array_min", "explode", "explode_outer", "unnest",
        "posexplode", "list_contains", "array_intersect", "array_except", "exists", "forall", "array_sum",
    }
)  # fmt: skip


def check(job: Job) -> Iterator[Finding]:
    """Look at collected values that are stored as they came."""
    for query, write in feeding(job):
        for column in query.columns:
            collected = list(_collected(column.expr))
            if not collected or (column.name and _used_without_order(write, column.name)):
                continue
            for node in collected:
                what = next(iter(node.columns()), column.name)
                yield finding(
                    __name__,
                    node.place,
                    f"`{node.name}` puts the values of `{what}` into {write.target.name or 'the table'} in the order "
                    "in which they are read, so a rerun over the same input stores another list",
                    instead=f"sort_array({node.name}({what})), or {node.name}({what} ORDER BY …)",
                    with_twice=f'F.sort_array(F.collect_list("{what}")) in the step',
                )


def _collected(expr: Expr) -> Iterator[Expr]:
    """Yield the lists whose order shows in the result."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if node.kind in {"call", "window"} and (node.name in _ORDERLESS or node.order_by):
            continue
        if node.name in _COLLECTS and node.kind in {"call", "window"}:
            yield node
            continue
        stack.extend(node.args)


def _used_without_order(write: Write, name: str) -> bool:
    """Return whether a later step sorts, counts or unpacks the list."""
    if write.query is None:
        return False
    for query in write.query.walk():
        for top in query.expressions():
            for node in top.calls(*_ORDERLESS):
                if any(name in arg.columns() for arg in node.args):
                    return True
    return False
