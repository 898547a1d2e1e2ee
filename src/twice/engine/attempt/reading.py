"""Inputs as a step sees them: read at the pinned version, cut to the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.content.filters import all_of, arrived_within, happened_in, partitions_between, valid_during
from twice.content.rows import column
from twice.engine.attempt.compute import declared
from twice.engine.attempt.inputs import Pinned, arrives_apart
from twice.errors import SchemaRefused
from twice.model.tables import Cut, Read
from twice.store.protocol import Cutting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task


def bind(task: Task, pinned: Pinned) -> DataFrame:
    """Read a pinned input, cut to what the step may see."""
    table = pinned.read.table
    if pinned.version is None and table.id == task.step.writes.id:
        return _no_past(task, pinned)
    source, cut, zone = task.stores.source(table), pinned.cut, task.pipeline.zone
    if isinstance(source, Cutting) and pinned.read.mode == "window":
        rows = source.read_cut(task.session, table, pinned.version, cut, dict(task.scope.dimensions), zone)
    else:
        rows = source.read(task.session, table, pinned.version)
    return cut_rows(task, pinned.read, cut, rows)


def _no_past(task: Task, pinned: Pinned) -> DataFrame:
    """Return the empty past of a table's first partition, when the table itself may not exist yet."""
    schema = pinned.read.table.schema
    if schema is None:
        raise SchemaRefused(
            f"step {task.step.name} builds on its own past, and {pinned.read.table.name} has none yet and "
            "no declared schema",
            unchanged="nothing was changed",
            next_step='add schema="…" to the table, so that the first partition has an empty past to read',
        )
    return task.session.createDataFrame([], declared(schema))


def cut_rows(task: Task, read: Read, cut: Cut, rows: DataFrame) -> DataFrame:
    """Cut an input's rows to the run's dimensions, partitions, event time and validity."""
    table = read.table
    terms = [column(name) == value for name, value in task.scope.dimensions if name in table.dimensions]
    if cut.partitions:
        terms.append(partitions_between(table, cut.partitions, task.pipeline.zone))
    if cut.event and table.event_time and read.mode == "window":
        terms.append(happened_in(rows.schema, table.event_time, cut.event, task.pipeline.zone, table.name))
        if task.units and arrives_apart(task.pipeline, task.step, read):
            # In a chunk a row is one of its own day's, and may be no later than that day's run would have seen it.
            terms.append(arrived_within(rows.schema, table, task.step.writes.lateness.days))
    if cut.event and read.mode == "as_of" and table.valid:
        terms.append(valid_during(*table.valid, cut.event))
    return rows.where(all_of(terms)) if terms else rows
