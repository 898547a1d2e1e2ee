"""Retries are switched on above a write that is not safe to repeat.

The orchestrator runs the task again when it fails, also when the write had already happened and only the answer got
lost, or when the step after it failed. With an append or a relative update above, each retry adds the rows again:
no job was started twice, and the table is wrong in the morning.

**Instead**, keep the retries and make the write safe (the finding that this one points to says how):

    DELETE + INSERT of the window in one transaction, overwritePartitions(), MERGE by key
    # twice
    BashOperator(bash_command="twice run shop --for {{ ds }}", retries=3)
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.unsafe import retried

SEVERITY = Severity.ERROR


def check(job: Job) -> Iterator[Finding]:
    """Look at the retries of tasks, flows and default arguments."""
    for place, retries, unsafe in retried(job, on=True):
        found = unsafe.finding
        yield finding(
            __name__,
            place,
            f"up to {retries} retries repeat what line {found.line} does ({found.code}): {found.message}",
            instead="make that write safe to repeat, and keep the retries",
            with_twice='bash_command="twice run PIPELINE --for {{ ds }}" with as many retries as you like',
        )
