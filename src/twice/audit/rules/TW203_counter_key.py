"""Spark's row counter is the key.

`monotonically_increasing_id()`, `zipWithIndex()` or `zipWithUniqueId()` fills a column that is stored.

**On the second run** the numbers depend on how Spark cut the rows: on the number of files, executors and shuffle
partitions, and on what was read first. The same row gets another number, and everything that stored the first one
points to another row. Two days also get the same numbers, because each run starts at zero.

**Instead** hash what identifies the row:

```python
merchants.withColumn("merchant_key", F.xxhash64("merchant_name", "merchant_city"))
```

With `twice`: `key_of("merchant_name", "merchant_city")`; a counter in a step's result is refused.

**Not meant** is a counter that keeps an order inside the job and is dropped before the write. A counter by which two
frames are joined decides which rows meet, and is reported even if it is dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Write
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.stored import as_written, feeding, lasting, once, outlives

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Report counters that reach a lasting table."""
    lines: set[int] = set()
    for use in once(job.used("counter", "key", "stored", "partition", "join")):
        if use.write is None or outlives(job, use.write) is None:
            continue
        lines.add(use.place.line)
        yield _report(use.place, as_written(job, use), use.column, use.write)
    yield from (found for found in _joined(job) if found.line not in lines)
    yield from (found for found in _rdds(job) if found.line not in lines)


def _joined(job: Job) -> Iterator[Finding]:
    """Yield counters that pair the rows of two frames: each side is numbered by how Spark cut it."""
    for query, write in feeding(job):
        names = {name for source in query.sources if source.on is not None for name in source.on.columns()}
        counters = {
            name: [origin for column in one.columns if column.name == name for _, origin in column.expr.find("counter")]
            for name in names
            for one in query.walk()
            if any(column.name == name and column.expr.has("counter") for column in one.columns)
        }
        for name, origins in counters.items():
            yield finding(
                __name__,
                min(origin.place for origin in origins),
                f"`{name}` pairs rows by a number that depends on how Spark cut them, so a rerun joins other rows and "
                f"stores them in {write.target.name or 'the output'}",
                instead="join by what identifies the row, or keep its key through every step",
                with_twice="key_of(…) of the columns that identify the row, on both sides",
            )


def _rdds(job: Job) -> Iterator[Finding]:
    """Yield RDDs that are numbered and written; `.filter` behind it only skips a header."""
    write = next((write for write in job.writes if lasting(write) and write.via == "dataframe"), None)
    for call in job.calls:
        if call.last in {"zipWithIndex", "zipWithUniqueId"} and write is not None:
            behind = job.line(call.place.last_line).partition(call.last)[2] + job.line(call.place.last_line + 1)
            if ".filter(" not in behind:
                yield _report(call.place, call.last, "", write)


def _report(place: Place, counter: str, column: str, write: Write) -> Finding:
    return finding(
        __name__,
        place,
        f"`{counter}` numbers the rows of {write.target.name or 'the output'} by how Spark cut them, so a rerun gives "
        f"the same row another {f'`{column}`' if column else 'number'}",
        instead='hash what identifies the row: F.xxhash64("…", "…") or F.sha2(F.concat_ws("|", …), 256)',
        with_twice="key_of(…) of the columns that identify the row",
    )
