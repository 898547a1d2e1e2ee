"""The clock is read when the DAG file is parsed, not when the task runs.

The scheduler parses the file every few seconds, the worker once more before each task. A date that is computed at
module level, in the `with DAG` block or in an operator's argument is the date of some parsing: a task that starts
after midnight, is retried, or is run again for an old day works on another day than its run is for.

**Instead**, use the run's logical date, which is filled in when the task runs:

    BashOperator(bash_command="load.sh {{ ds }}")         PythonOperator(op_kwargs={"day": "{{ ds }}"})
    # twice
    bash_command="twice run shop --for {{ ds }}"
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import HARMLESS, Job
from twice.audit.places import Place
from twice.audit.rules import finding

SEVERITY = Severity.WARNING

_ELSEWHERE = HARMLESS | {"start_date", "schedule"}


def check(job: Job) -> Iterator[Finding]:
    """Look at clocks that are asked at module level of a DAG file."""
    if job.orchestration.system != "airflow":
        return
    seen: set[Place] = set()
    for use in job.used("clock"):
        if not use.origin.module_level or use.context in _ELSEWHERE or use.place in seen:
            continue
        seen.add(use.place)
        yield finding(
            __name__,
            use.place,
            f"{use.name} is asked whenever the scheduler parses this file, so a retry or a rerun of an old day gets "
            "another date than its run is for",
            instead='the logical date, filled in when the task runs: "{{ ds }}", or data_interval_start as an argument',
            with_twice='bash_command="twice run PIPELINE --for {{ ds }}"',
        )
