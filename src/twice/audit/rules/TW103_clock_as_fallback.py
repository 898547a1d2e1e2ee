"""The wall clock stands in for a missing date.

The job takes a date from outside, but helps itself when none is given: `run_date or date.today()`,
`add_argument("--day", default=…now()…)`, `COALESCE(:run_date, CURRENT_DATE)`.

**On the second run** everything is well as long as the date is passed. A rerun by hand, a retry from a shell or a
scheduler whose template came out empty passes none, and quietly loads today instead of the day that failed.

**Instead** let a missing date be an error:

```python
parser.add_argument("--day", type=date.fromisoformat, required=True)
```

With `twice` there is no default date: `twice run shop` without `--for` says so and stops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import DECIDING, Job, Use
from twice.audit.rules import finding
from twice.audit.rules.stored import as_written, decides_call, evidence, once

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Report each clock that is asked only when a parameter is missing."""
    uses = job.used("clock", *DECIDING, "argument")
    for use in once(use for use in uses if (use.fallback or use.origin.fallback) and _counts(job, use)):
        yield finding(
            __name__,
            use.place,
            f"a rerun that passes no date falls back on `{as_written(job, use)}` and loads the day on which it runs",
            instead="make the date required, and stop when it is missing",
            with_twice="twice run … --for 2026-04-25: there is no default date",
        )


def _counts(job: Job, use: Use) -> bool:
    """Return whether the date decides data: it is used here, or handed to a step that lies in another file."""
    if decides_call(job, use):
        return True
    if use.context == "argument":
        return bool(job.orchestration.system) and bool(_STEP.search(use.detail.rpartition(".")[2]))
    return use.context == "input" or evidence(job, use, SEVERITY) is not None


_STEP = re.compile(r"extract|transform|load|store|ingest|fetch|process|etl|backfill|pipeline", re.IGNORECASE)
