"""From whatever was raised to an error that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.engine.retries import is_disk_full, is_transient
from twice.errors import LeaseLost, PermanentError, StepFailed, TransientError, TwiceError

if TYPE_CHECKING:
    from twice.engine.job import Job

_SAFE = "nothing was published by this attempt; the last good version stays readable"


def explained(job: Job, error: Exception) -> TwiceError:
    """Return the error as one of ours: weather, or permanent with what to do next."""
    if isinstance(error, StepFailed) and is_transient(error, job.step.transient):
        return TransientError(error.message, safe=_SAFE, to_go_on="run it again later")
    if isinstance(error, TwiceError):
        return error
    where = f"step {job.step.name}, {job.target.scope} of {job.step.writes.name}"
    if "cancelled part of cancelled job group" in str(error):
        return LeaseLost(
            f"{where}: the claim was taken over by another run, so its Spark jobs were cancelled", safe=_SAFE
        )
    if is_disk_full(error):
        return PermanentError(
            f"{where}: no space left on a disk",
            safe=_SAFE,
            to_go_on="make room, then run it again; twice maintain removes leftovers",
        )
    if is_transient(error, job.step.transient):
        return TransientError(f"{where}: {_first_line(error)}", safe=_SAFE, to_go_on="run it again later")
    return StepFailed(
        f"{where}: {_first_line(error)}",
        safe=_SAFE,
        to_go_on="correct the step or its input, then run it again",
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[0] if lines else ""
    # Errors of Python workers carry the user's own exception at the end.
    inner = [line for line in lines if line.endswith("Error") or "Error: " in line]
    return f"{type(error).__name__}: {told}" + (f" … {inner[-1]}" if inner and inner[-1] != told else "")
