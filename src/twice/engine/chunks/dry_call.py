"""Call a step only to see its plan: it is stopped before it reads or changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twice.engine.attempt.interception import Call, watched_calls
from twice.engine.attempt.statements import read_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stopped(SystemExit):
    """Raised in a step that is called for its plan: `except Exception` does not catch it, and threads end quietly."""


@contextmanager
def watched(session: SparkSession) -> Iterator[list[str]]:
    """Stop this thread, and those that it starts, before anything is read or changed, and record what that was."""
    found: list[str] = []

    def look(call: Call) -> None:
        if what := _seen(call):
            found.append(what)
            raise Stopped

    with watched_calls(session, look):
        yield found


def _seen(call: Call) -> str:
    """Return what a call would do at once, if it would; views and settings end with the session."""
    if call.kind == "expression":
        return ""
    if call.kind == "statement":
        found = [read_statement(call.on, text, call.places) for text in call.texts]
        return next((f"changes something while it is called: sql({one.word} …)" for one in found if one.at_once), "")
    what = "changes something" if call.kind == "write" else "reads rows"
    return f"{what} while it is called: {call.name}()"
