"""How many rows a planned step would read, from the metadata of its tables: no Spark job is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from twice.content.counts import expected_rows
from twice.content.filters import partitions_between
from twice.engine.spark.jvm import activate
from twice.errors import TwiceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.plan import PlannedStep
    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.tables import Table
    from twice.model.windows import Window


def estimate(runtime: Runtime, pipeline: Pipeline, planned: PlannedStep) -> float | None:
    """Return the rows of the windowed inputs of a planned step; None where a table cannot be counted."""
    total: float | None = None
    assert planned.scope.window is not None  # noqa: S101 - a planned step of a backfill has a window
    for read in planned.step.reads.values():
        cut = read.cut(planned.scope.window, planned.step.writes.lateness, pipeline.zone)
        if read.mode != "window" or cut.partitions is None:
            continue
        try:
            found = expected_rows(_read(runtime, pipeline, read.table, cut.partitions))
        except (TwiceError, Py4JError, PySparkException):
            return None
        if found is None:
            return None
        total = (total or 0.0) + found
    return total


def _read(runtime: Runtime, pipeline: Pipeline, table: Table, window: Window) -> DataFrame:
    activate(runtime.spark)
    source = runtime.stores.source(table)
    rows = source.read(runtime.spark, table, source.version(runtime.spark, table))
    return rows.where(partitions_between(table, window, pipeline.zone))
