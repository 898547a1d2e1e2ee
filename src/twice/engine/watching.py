"""Calling a step only to see its plan: at the first thing that would read or change something it is stopped."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What of a DataFrame reads rows at once, or leaves the plan.
_ACTIONS = frozenset(
    {"approxQuantile", "checkpoint", "collect", "corr", "count", "cov", "crosstab", "first", "foreach",
     "foreachPartition", "freqItems", "head", "isEmpty", "localCheckpoint", "mergeInto", "rdd", "show", "tail", "take",
     "toArrow", "toJSON", "toLocalIterator", "toPandas", "write", "writeTo", "writeStream"}
)  # fmt: skip
_FRAMES = frozenset({"pyspark.sql.classic.dataframe", "pyspark.sql.dataframe"})
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
# Plans that Spark carries out at once.
_COMMANDS = (f"{_LOGICAL}.Command", f"{_LOGICAL}.ParsedStatement")
_PLACE = re.compile(r"\{[^{}]*\}")


class Stopped(SystemExit):
    """Raised in a step that is only looked at: what catches every Exception does not catch it; threads end quietly."""


@contextmanager
def watched(session: SparkSession) -> Iterator[list[str]]:
    """Stop this thread, and those that it starts, before anything is read or changed, and note what that was."""
    found: list[str] = []
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    here = threading.get_ident()
    watching = True

    def look(frame: FrameType, event: str, _: Any) -> None:
        if not watching or event != "call":
            return
        # A thread may be somebody else's, who has a session of their own.
        if (what := _seen(frame)) and (threading.get_ident() == here or _session_of(frame) is session):
            found.append(what)
            raise Stopped

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        yield found
    finally:
        watching = False
        sys.setprofile(before)
        threading.setprofile(before_in_threads)


def _seen(frame: FrameType) -> str:
    """Say what a call would do at once, if it would."""
    name, module = frame.f_code.co_name, str(frame.f_globals.get("__name__", ""))
    if name == "pivot" and module == "pyspark.sql.group":
        # The values are looked for in the rows.
        return "reads rows while it is called: pivot()" if frame.f_locals.get("values") is None else ""
    if name == "sql" and module == "pyspark.sql.session":
        return _of_statement(frame)
    if name in {"createTable", "createExternalTable"} and module == "pyspark.sql.catalog":
        return f"changes something while it is called: {name}()"
    return f"reads rows while it is called: {name}()" if name in _ACTIONS and module in _FRAMES else ""


def _of_statement(frame: FrameType) -> str:
    """Say what a statement would do; queries do nothing yet, and views and settings end with the session."""
    query, more = frame.f_locals.get("sqlQuery"), frame.f_locals.get("kwargs")
    if not isinstance(query, str):
        return ""
    shown = f"changes something while it is called: sql({(query.split() or [''])[0]} …)"
    parser = frame.f_locals["self"]._jsparkSession.sessionState().sqlParser()
    try:
        plan = parser.parsePlan(_PLACE.sub("x", query) if more else query)
    except (PySparkException, Py4JError):
        # Spark itself will say so, unless only the places for DataFrames made it unreadable.
        return shown if more else ""
    return shown if any(_is_command(node) for node in _walk(plan)) else ""


def _walk(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children().iterator()
    while children.hasNext():
        yield from _walk(children.next())


def _is_command(node: Any) -> bool:
    kind = str(node.getClass().getSimpleName())
    if kind == "SetCommand" or (kind == "CreateViewCommand" and str(node.viewType().toString()) == "LocalTempView"):
        return False
    return any(is_instance_of(_gateway(), node, command) for command in _COMMANDS)


def _gateway() -> Any:
    from pyspark import SparkContext

    return SparkContext._gateway


def _session_of(frame: FrameType) -> object:
    me = frame.f_locals.get("self")
    return next((getattr(me, name) for name in ("_session", "session", "_sparkSession") if hasattr(me, name)), me)
