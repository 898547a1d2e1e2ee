"""Retries are switched off above a write that is not safe to repeat.

`retries=0` hides it: the orchestrator does not repeat the task, so a person does, by hand, at night, without knowing
how far it had come. The write below adds its rows again all the same.

**Instead**, make the write safe (the finding that this one points to says how), and switch retries on:

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

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look at tasks, flows and default arguments that say: no retries."""
    for place, _, unsafe in retried(job, on=False):
        found = unsafe.finding
        yield finding(
            __name__,
            place,
            f"retries are off, so a manual rerun repeats what line {found.line} does ({found.code}): {found.message}",
            instead="make that write safe to repeat, and switch retries on",
            with_twice='bash_command="twice run PIPELINE --for {{ ds }}" with retries',
        )
