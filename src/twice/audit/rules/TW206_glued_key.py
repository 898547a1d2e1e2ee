"""A key is glued together without a separator.

`CONCAT(shop_no, order_no)`, `hotel_no || room_no`, `md5(concat(a, b))`.

**On the second run** nothing changes by itself, but two different rows can have the same key: shop 1, order 23 and
shop 12, order 3 are both `123`. A merge or a rerun then replaces the one by the other, and which of them stays
depends on the order in which they are loaded.

**Instead** put a sign between the parts that none of them holds, and say what null means:

```sql
md5(concat_ws('|', coalesce(shop_no, ''), coalesce(order_no, '')))
```

With `twice`: `key_of("shop_no", "order_no")`, which tells null from empty and a number from a text.

**Not meant** are parts of fixed width (dates, `LPAD`), and a constant in front of one number.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, stored_columns
from twice.audit.vocabulary import is_day_column, is_key_column

SEVERITY = Severity.WARNING
_FIXED_WIDTH = (
    "lpad",
    "rpad",
    "date_format",
    "to_char",
    "format_date",
    "cast_date",
    "strftime",
    "md5",
    "sha1",
    "sha2",
    "hex",
)
_WRAPPERS = ("coalesce", "ifnull", "nvl", "isnull", "trim", "upper", "lower", "to_varchar", "str", "string")


def check(job: Job) -> Iterator[Finding]:
    """Look at the columns that are stored under the name of a key."""
    seen: set[int] = set()
    for query, write in feeding(job):
        for column, expr in _named(query, write):
            if not is_key_column(column):
                continue
            for node in expr.walk():
                if id(node) in seen or not _glues(node):
                    continue
                seen.update(id(inner) for inner in _chain(node))
                if glued := _glued(node):
                    yield finding(
                        __name__,
                        node.place,
                        f"`{column}` puts {glued[0]} and {glued[1]} side by side, so different rows can get the same "
                        "key, and a rerun replaces the one by the other",
                        instead=f"put a separator between them: concat_ws('|', {glued[0]}, {glued[1]})",
                        with_twice=f'key_of("{glued[0]}", "{glued[1]}")',
                    )


def _named(query: Query, write: Write) -> Iterator[tuple[str, Expr]]:
    if query is write.query:
        yield from ((stored.column, stored.expr) for stored in stored_columns(write))
    else:
        yield from ((column.name, column.expr) for column in query.columns)


def _glues(node: Expr) -> bool:
    if node.kind == "op" and node.name == "+":  # T-SQL and pandas: texts are added
        return any(_is_text(arg) or (arg.kind == "op" and _glues(arg)) for arg in node.args)
    if node.kind == "call" and node.name == "concat_ws":
        return bool(node.args) and node.args[0].kind == "literal" and node.args[0].value == ""
    return (node.kind == "call" and node.name == "concat") or (node.kind == "op" and node.name == "||")


def _is_text(node: Expr) -> bool:
    if node.kind == "literal":
        return isinstance(node.value, str)
    return node.kind == "call" and node.name.startswith(("cast_str", "cast_varchar", "cast_nvarchar", "cast_char"))


def _chain(node: Expr) -> Iterator[Expr]:
    """Yield a concatenation and those that it continues with; one inside a hash is another."""
    yield node
    for arg in node.args:
        if _glues(arg):
            yield from _chain(arg)


def _parts(node: Expr) -> Iterator[Expr]:
    """Yield what is put side by side, also through nested concatenations."""
    for arg in node.args:
        if _glues(arg):
            yield from _parts(arg)
        else:
            yield arg


def _glued(node: Expr) -> tuple[str, str] | None:
    """Return the first two neighbours of unknown length without a separator between them."""
    before = ""
    for part in _parts(node):
        name = _varies(part)
        if name and before:
            return before, name
        before = name
    return None


def _varies(part: Expr) -> str:
    """Return the column whose length is not known, or nothing for separators and parts of fixed width."""
    while part.kind == "call" and part.args and (part.name in _WRAPPERS or part.name.startswith(("cast", "try_cast"))):
        if part.name in _FIXED_WIDTH:
            return ""
        part = part.args[0]
    if part.kind != "column" or is_day_column(part.name):
        return ""
    return part.name
