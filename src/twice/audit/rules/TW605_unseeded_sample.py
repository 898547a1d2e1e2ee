"""Rows are drawn without a seed.

`sample(0.1)`, `randomSplit([0.8, 0.2])`, `TABLESAMPLE`, `ORDER BY random() LIMIT 10`, `WHERE rand() < 0.1`, and what
was drawn is stored; or a column that is computed with `rand()` itself.

**On the second run** other rows are drawn. The same day has another sample, a row moves from training to test, and
no measurement can be repeated.

**Instead** draw by a hash of the row's key, which even survives a change of the order of the rows:

```sql
WHERE pmod(xxhash64(event_id), 10) = 0
```

A seed helps as long as the rows lie the same way: `sample(0.1, seed=7)`, `TABLESAMPLE … REPEATABLE (7)`.

With `twice` random numbers in a step are refused; draw by a hash of the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.expressions import Order
from twice.audit.findings import Finding, Severity
from twice.audit.functions import SEEDABLE
from twice.audit.model import Job, Use
from twice.audit.places import Place
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.stored import feeding, lasting, once, resolved

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look for samples and random orders on the way into a table."""
    reported: set[Place] = set()
    random = any(column.expr.has("random") for query, _ in job.all_queries() for column in query.columns)
    for query, write in feeding(job):
        for place in _drawn(query, random=random):
            if place not in reported:
                reported.add(place)
                yield _report(place, write.target.name)
    for use in once(use for use in job.used("random", "stored") if _is_drawn(job, use)):
        if use.place not in reported and use.write is not None:
            reported.add(use.place)
            yield _report(use.place, use.write.target.name, f"`{use.column}`" if use.column else "a value")
    yield from _drawn_to_act(job, reported)


def _drawn_to_act(job: Job, reported: set[Place]) -> Iterator[Finding]:
    """Yield queries that draw who gets a mail or a call."""
    if not job.effects:
        return
    for query, used in job.all_queries():
        if used is None and query.limit is not None:
            for place in _at_random(query.order_by):
                if place not in reported:
                    reported.add(place)
                    yield _report(place, "")


def _drawn(query: Query, *, random: bool) -> Iterator[Place]:
    if query.sample is not None and not query.sample_seeded:
        yield query.sample.place
    if query.limit is not None:
        yield from _at_random(query.order_by)
    for filter_ in query.filters:
        yield from (origin.place for _, origin in filter_.find("random"))
        for name in filter_.columns() if random else ():
            made = resolved(query, name)
            yield from (origin.place for _, origin in made.find("random")) if made is not None else ()
    for expr in query.expressions():
        for window in expr.calls("row_number", "rank", "ntile", "dense_rank"):
            yield from _at_random(window.order_by)


def _at_random(order: list[Order] | tuple[Order, ...]) -> Iterator[Place]:
    for term in order:
        yield from (origin.place for _, origin in term.expr.find("random"))


def _is_drawn(job: Job, use: Use) -> bool:
    """Return whether a SQL statement stores a random number beside what it reads; made-up rows are test data."""
    called = use.name.lower().partition("(")[0].rpartition(".")[2]
    if use.write is None or called not in SEEDABLE or job.language not in {"sql", "dbt"}:
        return False
    return lasting(use.write) and bool(use.write.sources)


def _report(place: Place, target: str, what: str = "the rows") -> Finding:
    are = "are" if what == "the rows" else "is"
    return finding(
        __name__,
        place,
        f"{what} of {target or 'the output'} {are} drawn again on every run, so a rerun over the same input stores "
        "another result",
        instead="draw by a hash of the key: pmod(xxhash64(id), 10) = 0, or at least give a seed",
        with_twice="draw by a hash of the key; random numbers in a step are refused",
    )
