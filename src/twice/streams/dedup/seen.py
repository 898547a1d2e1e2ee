"""Process: every event key is kept in a table of its own, beside the target, with the batch that saw it first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import column
from twice.model.framework import WINDOW_COLUMN
from twice.streams.dedup.rows import OnePerKey, known_keys, without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.model.streams import Process, Stream


def keys_of(dedup: Process, one: OnePerKey) -> DataFrame:
    """Return the keys of a batch's events."""
    return one.rows.select(*map(column, dedup.key))


def new_events(task: Task, seen: Task, dedup: Process, one: OnePerKey) -> DataFrame:
    """Leave out events whose key another batch saw first."""
    store, table = seen.store, seen.step.writes
    known = store.read(task.session, table, store.version(task.session, table))
    others = known.where(~F.col(WINDOW_COLUMN).eqNullSafe(task.mark))
    return without(one.rows, known_keys(others, one.rows, dedup.key), dedup.key)


def seen_task(task: Task, stream: Stream) -> Task:
    """Return the job that writes a batch's keys into the table of seen ones."""
    table = stream.seen
    assert table is not None  # noqa: S101 - a stream that processes keeps its keys
    step = replace(task.step, name=f"{stream.name}-keys", writes=table, nondeterministic="")
    return replace(task, step=step, target=replace(task.target, table=table))
