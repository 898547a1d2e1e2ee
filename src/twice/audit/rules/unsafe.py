"""Which writes and effects of a file a retry repeats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.places import Place
from twice.audit.rules import rules

# What a retry repeats, and what it then makes wrong.
_CODES = (
    *("TW301", "TW302", "TW304", "TW307", "TW308", "TW309", "TW310", "TW311", "TW313"),
    *("TW501", "TW504", "TW505"),
)


@dataclass(frozen=True)
class Unsafe:
    """A finding of another rule, with the task that it belongs to."""

    finding: Finding
    task: str


def unsafe_in(job: Job) -> list[Unsafe]:
    """Return what a retry repeats, with its task."""
    return job.remembered(_unsafe)


def _unsafe(job: Job) -> list[Unsafe]:
    unsafe: list[Unsafe] = []
    tasks: list[tuple[Place, str]] = [(one.place, _task_of(job, one.task, one.function)) for one in job.writes]
    tasks += [(one.place, _task_of(job, one.task, one.function)) for one in job.effects]
    for code in _CODES:
        for found in rules()[code].check(job):
            if found.severity is not Severity.ERROR:
                continue
            exact = [task for place, task in tasks if place == found.place]
            near = [task for place, task in tasks if place.line <= found.place.line <= place.last_line]
            unsafe.append(Unsafe(found, (exact or near or [""])[0]))
    return unsafe


def _task_of(job: Job, task: str, function: str) -> str:
    """Return the task, also that of a decorated function which the model only knows by its name."""
    return task or next((one.name for one in job.orchestration.tasks if function and one.function == function), "")


def retried(job: Job, *, on: bool) -> Iterator[tuple[Place, int, Unsafe]]:
    """Yield each place that sets retries (above zero, or to zero) over something unsafe, with the first such thing."""
    system = job.orchestration
    set_so = any(
        one is not None and (one > 0) is on for one in (system.retries, *(task.retries for task in system.tasks))
    )
    if not system.system or not set_so:
        return
    found = unsafe_in(job)
    if not found:
        return
    own: dict[str, int] = {}
    for task in system.tasks:
        if task.retries is None:
            continue
        own[task.name] = task.retries
        mine = next((one for one in found if one.task == task.name), None)
        if mine is not None and (task.retries > 0) is on and task.retries_place is not None:
            yield task.retries_place, task.retries, mine
    rest = next((one for one in found if one.task not in own), None)
    if (
        rest is not None
        and system.retries is not None
        and (system.retries > 0) is on
        and system.retries_place is not None
    ):
        yield system.retries_place, system.retries, rest
