"""A sum of floating-point numbers is compared or becomes a key.

An average, or a sum over `DOUBLE`, is hashed into a key, joined by equality or part of a merge condition.

**On the second run** the same numbers may be added in another order, and floating-point addition depends on it: the
last digits differ, the key is another one, the join finds nothing, the merge inserts the row again.

**Instead** add decimals, or compare what identifies the row:

```sql
SUM(CAST(amount AS DECIMAL(18, 2)))
```

With `twice`: `key_of` refuses floats and says to cast them to decimal.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.places import Place
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, resolved, stored_columns
from twice.audit.vocabulary import is_key_column

SEVERITY = Severity.WARNING
_AVERAGES = ("avg", "mean", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp")
_FLOATS = ("cast_double", "cast_float", "cast_real", "cast_float64", "cast_double precision", "double", "float")
_EXACT = frozenset(
    {"round", "floor", "ceil", "bround", "trunc", "cast_decimal", "cast_numeric", "cast_int", "cast_bigint"}
)
_HASHES = (
    "md5",
    "sha1",
    "sha2",
    "sha256",
    "sha512",
    "hash",
    "xxhash64",
    "farm_fingerprint",
    "md5_hex",
    "sha1_hex",
    "hashbytes",
)


def check(job: Job) -> Iterator[Finding]:
    """Look at keys, joins and merge conditions that hold a sum of floats."""
    if not _has_float_sums(job):
        return
    for query, write in feeding(job):
        for condition in _conditions(query, write):
            name = next((name for name in condition.columns() if _is_float_sum(Expr("column", name), query)), "")
            if name:
                yield _report(condition.place, name, write)
    for write in job.writes:
        if write.query is None or write.target.is_scratch:
            continue
        for stored in stored_columns(write):
            if is_key_column(stored.column):
                yield from _in_key(stored.expr, write.query, write)


def _has_float_sums(job: Job) -> bool:
    return any(
        any(True for _ in column.expr.calls(*_AVERAGES, "sum"))
        for query, _ in job.all_queries()
        for column in query.columns
    )


def _conditions(query: Query, write: Write) -> Iterator[Expr]:
    """Yield the equalities by which rows are joined or merged."""
    compared = [source.on for source in query.sources if source.on is not None]
    if query is write.query and write.merge is not None and write.merge.on is not None:
        compared.append(write.merge.on)
    for condition in compared:
        yield from (part for part in condition.conjuncts() if part.kind == "op" and part.name in {"=", "<=>"})


def _in_key(expr: Expr, query: Query, write: Write) -> Iterator[Finding]:
    hashed = [arg for node in expr.calls(*_HASHES, "concat", "concat_ws") for arg in node.args]
    direct = next((arg for arg in hashed if _is_float_sum(arg, query)), None)
    if direct is not None:
        yield _report(expr.place, next(iter(direct.columns()), "it"), write)
        return
    for name in dict.fromkeys(name for arg in hashed for name in arg.columns()):
        if _is_float_sum(Expr("column", name), query):
            yield _report(expr.place, name, write)
            return


def _is_float_sum(expr: Expr, query: Query) -> bool:
    if expr.kind == "column":
        made = resolved(query, expr.name)
        return made is not None and made.kind != "column" and _is_float_sum(made, query)
    if expr.kind == "call" and expr.name in _EXACT:
        return False
    if any(True for _ in expr.calls(*_EXACT)):
        return False
    if any(True for _ in expr.calls(*_AVERAGES)):
        return True
    return any(any(True for _ in total.calls(*_FLOATS)) for total in expr.calls("sum"))


def _report(place: Place, name: str, write: Write) -> Finding:
    return finding(
        __name__,
        place,
        f"`{name}` is a floating-point sum whose last digits depend on the order of the rows, so on a rerun it may no "
        f"longer equal what {write.target.name or 'the table'} holds",
        instead=f"sum decimals: SUM(CAST(… AS DECIMAL(18, 2))) AS {name}, or compare an identifier",
        with_twice="key_of refuses floats: cast to decimal first",
    )
