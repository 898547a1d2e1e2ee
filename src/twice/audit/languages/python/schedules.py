"""Schedules and spans of time, and where a file sets them."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.audit.languages.python.values import (
    Const,
    Instance,
    Text,
    Value,
    alternatives,
    constant,
    origins_of,
)
from twice.audit.places import Place

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_SCHEDULES = {
    "@once": None,
    "@hourly": 3600,
    "@daily": 86400,
    "@midnight": 86400,
    "@weekly": 604800,
    "@monthly": 2592000,
    "@yearly": 31536000,
    "@quarterly": 7776000,
}


def every(schedule: str) -> int | None:
    """Return the seconds between two runs of a cron text or preset, as far as it is clear.

    >>> every("@daily"), every("0 * * * *"), every("*/15 * * * *"), every("0 3 * * *"), every("0 3 * * 1")
    (86400, 3600, 900, 86400, 604800)
    """
    text = schedule.strip().lower()
    if text in _SCHEDULES:
        return _SCHEDULES[text]
    fields = text.split()
    if len(fields) != 5:
        return None
    minute, hour, day, _month, weekday = fields
    if hour == "*":
        step = re.fullmatch(r"\*/(\d+)", minute)
        return int(step[1]) * 60 if step and int(step[1]) else 60 if minute == "*" else 3600
    step = re.fullmatch(r"\*/(\d+)", hour)
    if step and int(step[1]):
        return int(step[1]) * 3600
    if day == "*" and weekday in {"*", "?"}:
        return 86400 // max(1, len(hour.split(",")))
    if day == "*":
        return 604800 if weekday.isalnum() else 86400
    return 2592000


def delta(arguments: list[Value], keywords: dict[str, Value], interp: Interpreter, node: ast.AST) -> Value:
    """timedelta(days=1) and the like: seconds, as far as they are known."""
    found = {name: constant(value) for name, value in keywords.items()}
    if arguments and isinstance(constant(arguments[0]), int):
        found["days"] = constant(arguments[0])
    numbers = {
        name: value
        for name, value in found.items()
        if isinstance(value, int) and name in {"days", "hours", "minutes", "seconds", "weeks"}
    }
    origins = frozenset(one for value in (*arguments, *keywords.values()) for one in origins_of(value))
    if numbers and len(numbers) == len(keywords) + len(arguments):
        try:
            seconds = int(timedelta(**numbers).total_seconds())
        except OverflowError:
            return Value(name=interp.source(node)[:60])
        return Instance(kind="timedelta", attributes={"seconds": Const(value=seconds)}, name=interp.source(node)[:60])
    return Value(origins=origins, name=interp.source(node)[:60])


def note_schedule(interp: Interpreter, value: Value | None, node: ast.AST) -> None:
    """Note how often a DAG or job runs."""
    if value is None:
        return
    found = interp.job.orchestration
    for one in alternatives(value):
        if isinstance(one, Instance) and one.kind == "timedelta":
            seconds = constant(one.attributes["seconds"])
            found.schedule, found.every = one.name, seconds if isinstance(seconds, int) else None
        elif isinstance(one, Text):
            found.schedule, found.every = one.shown, every(one.shown)
        elif isinstance(one, Const) and one.value is None:
            found.schedule = "None"
        else:
            found.schedule = one.name
        found.schedule_place = interp.place(node)
        return


def keyword_place(interp: Interpreter, node: ast.Call, *wanted: str) -> ast.AST:
    """Return where one of some keywords is given, also inside a dictionary, or the call."""
    for keyword in node.keywords:
        if keyword.arg in wanted:
            return keyword.value
    for keyword in node.keywords:
        if isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in wanted:
                    return value
    return node


def place_of(interp: Interpreter, node: ast.Call, name: str) -> Place:
    """Find the line that sets a value: a keyword, or an entry of a dictionary anywhere in the file."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return Place(keyword.value.lineno, keyword.value.col_offset + 1)
    return interp.settings.place(name) or interp.place(node)
