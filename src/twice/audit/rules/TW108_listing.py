"""What is read depends on the files of a folder, or on the machine.

The newest file by modification time, the last name of a listing, every file that happens to be there, the current
directory or the host's name.

**On the second run** another file is the newest, a partner has delivered one more, a copy has touched the
modification times, or the first run has moved the files away: the same run reads another input, and nothing
records which.

**Instead** name the input by the date of the run, and fail if it is not there:

```python
catalog = spark.read.csv(f"s3://landing/catalog/dt={run_date}/")
```

With `twice` a folder of files is a source that is cut by a partition, and the run records path, size and time of what
it read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import HARMLESS, Job, Mode, Use
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.stored import as_written, lasting, once

SEVERITY = Severity.WARNING
_ONE = re.compile(r"\[-?[01]\]|\bmax\(|latest|newest|recent|\bnext\(|LastModified", re.IGNORECASE)
# A variable that names the file itself; buckets, hosts and base folders are where the job is installed.
_FILE_NAME = re.compile(
    r"""(environ|getenv)\W+(get\W+)?\w*(FILE_?NAME|INPUT_?FILE|SOURCE_?FILE|CSV_?FILE|FILE_?PATH)["']""", re.IGNORECASE
)
_INPUT = re.compile(r"""(INPUT|SOURCE|SRC|OBJECT|FILE)_?(PATH|URI|URL|KEY|FILE|PREFIX)["']""", re.IGNORECASE)
_OF_A_DATE = re.compile(r"\{[^{}]*(date|day|ds|dt|month|hour|run|year|window|partition)[^{}]*\}", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Report listings and modification times that decide an input."""
    contexts = ("input", "filter", "stored", "target", "partition")
    newest = {use.used_at for use in job.used("file", *contexts)}
    uses = [*job.used("file", *contexts), *(use for use in job.used("listing", *contexts) if use.used_at not in newest)]
    uses += [use for use in job.used("environment", "input") if _FILE_NAME.search(use.name) or _INPUT.search(use.name)]
    lines: set[int] = set()
    inputs: set[Place] = set()
    for use in once(use for use in uses if _decides(job, use)):
        if use.place.line in lines or (use.kind == "listing" and use.used_at in inputs):
            continue  # a glob inside a walk lists for the same read
        lines.add(use.place.line)
        inputs.add(use.used_at)
        yield finding(
            __name__,
            use.place,
            f"`{as_written(job, use)}` decides what is read, so a rerun reads whatever is there by then",
            instead="build the path from the run's date, and fail if it is missing",
            with_twice='a source of type "files" with a partition: the run reads its own day and records which files',
            severity=Severity.INFO if use.kind == "environment" and not _FILE_NAME.search(use.name) else None,
        )


def _decides(job: Job, use: Use) -> bool:
    """Return whether what was listed reaches a table; the parts of a folder that the date names are one input."""
    if use.kind == "listing" and any(
        _OF_A_DATE.search(text) for call in job.calls if call.place.line == use.place.line for text in call.texts
    ):
        return False
    if use.write is not None:
        # A table that is rebuilt from all files of a folder is rebuilt from one input.
        rebuilds = use.write.mode is Mode.OVERWRITE and use.kind == "listing" and not _takes_one(job, use.place.line)
        return lasting(use.write) and not rebuilds
    if any(other.place == use.place and other.context in HARMLESS - {"log"} for other in job.uses):
        return False
    # Rows that a loop over the files inserts one by one.
    return any(lasting(write) and write.loop for write in job.writes)


def _takes_one(job: Job, line: int) -> bool:
    """Return whether one file of the listing is chosen, here or in the lines below."""
    return any(_ONE.search(job.line(number)) for number in range(line, line + 4))
