"""Turn any exception into an error that states what to do next."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from twice.engine.attempt.retries import is_disk_full, is_transient
from twice.errors import Interrupted, LeaseLost, PermanentError, StepFailed, TransientError, TwiceError

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task

_UNCHANGED = "nothing was published by this attempt; the last good version stays readable"


def explained(task: Task, error: Exception) -> TwiceError:
    """Return the error as one of ours: a transient error, or a permanent one with what to do next."""
    where = f"step {task.step.name}, {task.target.scope} of {task.step.writes.name}"
    if (cancelled := _cancelled(where, error)) is not None:
        return cancelled
    if isinstance(error, StepFailed) and is_transient(error, task.step.transient):
        return TransientError(error.message, unchanged=_UNCHANGED, next_step="run it again later")
    if isinstance(error, TwiceError):
        return error
    if is_disk_full(error):
        return PermanentError(
            f"{where}: no space left on a disk",
            unchanged=_UNCHANGED,
            next_step="free some space, then run it again; twice maintain removes leftovers",
        )
    if is_transient(error, task.step.transient):
        return TransientError(
            f"{where}: {message_of(task, error)}", unchanged=_UNCHANGED, next_step="run it again later"
        )
    return StepFailed(
        f"{where}: {message_of(task, error)}",
        unchanged=_UNCHANGED,
        next_step="correct the step or its input, then run it again",
    )


def _cancelled(where: str, error: Exception) -> TwiceError | None:
    """Return why the Spark jobs of an attempt were cancelled, inside its step or outside; None if they were not."""
    link: BaseException | None = error
    while link is not None:
        text = str(link) if not isinstance(link, TwiceError) else ""
        if "part of cancelled job tag" in text:  # all jobs of a run have its tag
            return Interrupted(
                f"{where}: its Spark jobs were cancelled, because the run was stopped", unchanged=_UNCHANGED
            )
        if "part of cancelled job group" in text and not isinstance(error, TwiceError):
            taken = "the claim was taken over by another run, so its Spark jobs were cancelled"
            return LeaseLost(f"{where}: {taken}", unchanged=_UNCHANGED)
        link = link.__cause__
    return None


def message_of(task: Task, error: BaseException) -> str:
    """Return an error's kind and message; where rows are personal, the message is left out.

    A message of Spark or of a step may quote values of rows. A message about a query is not
    about rows, so it is kept.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling "):
        lines = [lines[1].removeprefix(": "), *lines[2:]]  # the gateway's own message adds nothing
    first, kind = lines[0] if lines else "", type(error).__name__
    if _is_personal(task) and not isinstance(error, AnalysisException):
        condition = getattr(error, "getCondition", lambda: None)()
        place = _place(task, error)
        about = ", ".join(text for text in (f"[{condition}]" if condition else "", place) if text)
        return f"{kind}{': ' + about if about else ''} (its text is left out: it may quote personal values)"
    # Errors of Python workers carry the user's own exception at the end.
    inner = [line for line in lines if line.endswith("Error") or "Error: " in line]
    return f"{kind}: {first}" + (f" … {inner[-1]}" if inner and inner[-1] != first else "")


def _is_personal(task: Task) -> bool:
    return bool(task.step.writes.personal or any(read.table.personal for read in task.step.reads.values()))


def _place(task: Task, error: BaseException) -> str:
    """Return where in the step's own file an error was raised."""
    if task.step.function is None:
        return ""
    file = task.step.function.__code__.co_filename
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"line {frames[-1].lineno} of {file}" if frames else ""
