"""Missed runs are caught up, but the tasks do not know which day they are for.

With `catchup=True` (or a backfill) the orchestrator starts one run for each missed day, possibly many at once. Tasks
that do not take the logical date all do the same: they load today again and again, and the missed days stay missing.

**Instead**, hand every task the day that its run is for:

    bash_command="export.py --date {{ ds }}"        def load(data_interval_start=None): …
    # twice
    bash_command="twice run shop --for {{ ds }}": there is no default date
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look at DAGs that catch up."""
    system = job.orchestration
    if not system.catchup or system.catchup_place is None or system.uses_logical_date:
        return
    if not system.tasks or any(task.templated for task in system.tasks):
        return
    every = f" ({system.schedule})" if system.schedule else ""
    yield finding(
        __name__,
        system.catchup_place,
        f"each missed run{every} is started, and all of them do the same, because no task takes its logical date",
        instead="pass {{ ds }} or data_interval_start to the tasks, or set catchup=False",
        with_twice='bash_command="twice run PIPELINE --for {{ ds }}"',
    )
