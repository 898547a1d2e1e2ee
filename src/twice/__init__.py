"""`twice` makes Spark pipelines safe to run twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twice.errors import TwiceError
from twice.model import gates
from twice.model.durations import Duration, days, hours, minutes
from twice.model.grains import Day, Grain, Hour, Month, QuarterHour, Week
from twice.model.keys import key_hash
from twice.model.patterns import InsertOnly, Merge, Overwrite, Whole
from twice.model.pipelines import Pipeline
from twice.model.scopes import Scope
from twice.model.steps import Retry
from twice.model.tables import Table
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.api import run, run_stream
    from twice.content.joins import as_of_join
    from twice.content.keys import key_of, key_sql

__version__ = "0.1.0"

__all__ = [
    "Day",
    "Duration",
    "Grain",
    "Hour",
    "InsertOnly",
    "Merge",
    "Month",
    "Overwrite",
    "Pipeline",
    "QuarterHour",
    "Retry",
    "Scope",
    "Table",
    "TwiceError",
    "Week",
    "Whole",
    "Window",
    "as_of_join",
    "days",
    "gates",
    "hours",
    "key_hash",
    "key_of",
    "key_sql",
    "minutes",
    "run",
    "run_stream",
]

# These need Spark, which importing a pipeline module must not load.
_WITH_SPARK = {
    "as_of_join": "twice.content.joins",
    "key_of": "twice.content.keys",
    "key_sql": "twice.content.keys",
    "run": "twice.api",
    "run_stream": "twice.api",
}


def __getattr__(name: str) -> Any:
    if name in _WITH_SPARK:
        from importlib import import_module

        return getattr(import_module(_WITH_SPARK[name]), name)
    raise AttributeError(f"module 'twice' has no attribute {name!r}")
