"""Python's `hash()` reaches the data.

A key, a partition or another stored value is computed by the built-in `hash()`.

**On the second run** Python has another salt: `hash("a")` differs in every process, so the same row gets another key
and goes to another bucket. In Spark even the executors of one run disagree.

**Instead** use a hash that is the same everywhere:

```python
F.xxhash64("email")                                   # or F.sha2(…, 256)
hashlib.sha256(url.encode()).hexdigest()
```

With `twice`: `key_of("email")` as a column, `key_hash(email)` in Python.

**Not meant** is `hash()` inside a process: for a dictionary, a cache, a set of what was seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.stored import lasting, once

SEVERITY = Severity.ERROR
_BUCKET = re.compile(r"(?<![\w.])hash\(.*\)+\s*%")
_FILES = frozenset({"write_text", "write_bytes", "to_parquet", "to_csv", "upload_file", "put_object"})


def check(job: Job) -> Iterator[Finding]:
    """Report salted hashes that are stored or that decide where rows go."""
    lines: set[int] = set()
    for use in once(job.used("hash", "key", "stored", "partition", "join", "target", "filter")):
        lines.add(use.place.line)
        yield _report(use.place, f"`{use.column}`" if use.column else "value")
    for call in job.calls:
        # hash(…) % 16 chooses a bucket, whatever becomes of it.
        line = call.place.line
        if call.last == "hash" and line not in lines and _BUCKET.search(job.line(line)) and _writes(job):
            lines.add(line)
            yield _report(call.place, "bucket")


def _writes(job: Job) -> bool:
    return any(lasting(write) for write in job.writes) or any(call.last in _FILES for call in job.calls)


def _report(place: Place, what: str) -> Finding:
    return finding(
        __name__,
        place,
        f"Python salts `hash` differently in every process, so a rerun gives the same row another {what}",
        instead="F.xxhash64(…) in Spark, hashlib.sha256(text.encode()).hexdigest() in Python",
        with_twice="key_of(…) as a column, key_hash(…) in Python",
    )
