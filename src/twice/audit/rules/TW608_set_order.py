"""A Python set decides the order of the output.

The items of a set are numbered, joined into a text, or written one after the other.

**On the second run** the set has another order: Python salts the hashes of texts differently in every process. Numbers
go to other items, the text differs, the file differs line by line though it holds the same.

**Instead** sort before iterating:

```python
for number, region in enumerate(sorted(regions)): ...
```

With `twice` nothing changes: sort in the step, or number by `key_hash(region)`.

**Not meant** are sets that only answer whether something is in them, and loops whose order does not show.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Use
from twice.audit.rules import finding

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Report the sets whose order reaches output: written line by line, numbered, or joined into a text."""
    written = [(expr.place, expr.name or "the set") for expr in job.sets_iterated]
    counted = [
        (use.place, use.name)
        for use in job.used("set", "stored", "key", "partition")
        if use.name.startswith("enumerate(") or ".join(" in use.name or _lists_lines(use)
    ]
    lines: set[int] = set()
    for place, name in (*written, *counted):
        if place.line in lines:
            continue
        lines.add(place.line)
        yield finding(
            __name__,
            place,
            f"`{name}` goes through a set, whose order differs in every process, so a rerun writes the same items in "
            "another order",
            instead=f"iterate over sorted({name})",
            with_twice=f"sorted({name}), or key_hash(…) instead of a number",
        )


def _lists_lines(use: Use) -> bool:
    """Return whether the items become the lines of a text file, in the order of the set."""
    lines = use.write is not None and use.write.via == "pandas" and use.write.target.kind == "path"
    return lines and use.name.startswith(("list(", "tuple("))
