"""The start date moves with the clock.

`start_date=datetime.now()`, `days_ago(1)` and the like are evaluated whenever the scheduler reads the file. Which
runs exist then depends on when it looked: the first interval may never end, runs appear or disappear after a
restart, and a backfill cannot reach back behind a moving start.

**Instead**, write a fixed date:

    DAG("load", start_date=datetime(2026, 4, 25), schedule="@daily", catchup=False)
    # twice
    the pipeline has no start date; `twice run shop --from 2026-04-25 --to 2026-05-01` names the days
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at the start date of a DAG."""
    system = job.orchestration
    if system.start_date is None:
        return
    clock = next((origin for _, origin in system.start_date.find("clock")), None)
    if clock is not None:
        yield finding(
            __name__,
            clock.place,
            f"the start date is {clock.name} at the moment when the file is read, so which runs exist changes from one "
            "reading to the next",
            instead="start_date=datetime(2026, 4, 25): a fixed date",
            with_twice="name the days: twice run PIPELINE --from … --to …",
        )
