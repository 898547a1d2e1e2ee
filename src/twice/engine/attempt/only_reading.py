"""While a step's own code runs it may read and plan, not write; a plan is judged before its rows leave Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twice.engine.attempt.determinism import clock_literals, forbidden, not_deterministic
from twice.engine.attempt.interception import Call, calling_line, watched_calls
from twice.engine.attempt.statements import read_statement
from twice.errors import TwiceError, WriteRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.steps import Step


@contextmanager
def only_reading(step: Step, session: SparkSession) -> Iterator[None]:
    """Refuse the writes of a step, and rows that a rerun could not repeat, while its code runs in this thread.

    A step that catches the error does not avoid it: it is raised again when the code has ended.
    """
    refused: list[TwiceError] = []

    def look(call: Call) -> None:
        error = _write(step, call) or (None if step.nondeterministic else _unrepeatable(step, call))
        if error is not None:
            refused.append(error)
            raise error

    try:
        with watched_calls(session, look):
            yield
    except Exception:
        if refused:
            raise refused[0] from None
        raise
    if refused:
        raise refused[0]


def _write(step: Step, call: Call) -> WriteRefused | None:
    if call.kind == "statement":
        found = [read_statement(call.on, text, call.places) for text in call.texts]
        shown = next((f"sql({one.word} …)" for one in found if one.writes), "")
    else:
        shown = f"{type(call.on).__name__}.{call.name}" if call.kind == "write" else ""
    if not shown:
        return None
    return WriteRefused(
        f"step {step.name} writes by itself: {_place(step)}: {shown}. A step only returns rows, which twice stages, "
        "checks and publishes",
        unchanged="this write was not carried out; nothing was published",
        next_step=f"return the rows: {step.name} returns those of {step.writes.name}; a second table needs a step of "
        "its own, which may read the first. Do everything else outside of the pipeline",
    )


def _unrepeatable(step: Step, call: Call) -> TwiceError | None:
    """Judge texts before Spark parses them, and plans before rows leave them: the result's plan shows neither."""
    found = [each for text in call.texts for each in clock_literals(text)]
    if call.kind in {"read", "cut"}:
        found = list(forbidden(call.frame))
    return not_deterministic(step, found, _place(step)) if found else None


def _place(step: Step) -> str:
    return "its query" if step.query is not None else calling_line()
