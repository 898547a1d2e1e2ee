"""Process: every event key is kept in a table of its own, beside the target, with the batch that saw it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import column
from twice.model.framework import WINDOW_COLUMN
from twice.streams.dedup.rows import Counts, OnePerKey, known_keys, near, without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.model.streams import Process, Stream
    from twice.store.protocol import StagedRows


def keys_of(dedup: Process, one: OnePerKey) -> DataFrame:
    """Return the keys of a batch's events."""
    return one.rows.select(*map(column, dedup.key))


class Keeping:
    """The keys of a batch on their way into the table of seen ones; which of them it held before is looked up once."""

    def __init__(self, one: OnePerKey, key: Sequence[str]) -> None:
        self._one, self._key = one, key
        self._known: DataFrame | None = None

    def stage(self, task: Task, staged: StagedRows, keys: DataFrame) -> Counts:
        """Stage the keys that the table does not hold yet; each occurs once."""
        self.release()
        number = self._one.number
        if staged.base is not None:
            self._known = known_keys(_of_others(task, staged.base, self._one), self._one.rows, self._key).persist()
            keys = without(keys, self._known, self._key)
        task.store.stage_changes(task.session, staged, keys, insert_only=True)
        return Counts(number, staged.written, number - staged.written)

    def new_events(self, number: int) -> DataFrame:
        """Return the events whose keys were kept; `number` is how many there are."""
        if self._known is None or number == self._one.number:
            return self._one.rows
        return without(self._one.rows, self._known, self._key)

    def release(self) -> None:
        """Release the known keys that Spark holds."""
        if self._known is not None:
            self._known.unpersist()
            self._known = None


def first_seen(keys: Task, dedup: Process, one: OnePerKey) -> DataFrame:
    """Leave out events whose key another batch saw first, where the keys of this one were kept before."""
    others = _of_others(keys, keys.store.version(keys.session, keys.step.writes), one)
    return without(one.rows, known_keys(others, one.rows, dedup.key), dedup.key)


def _of_others(keys: Task, version: str | None, one: OnePerKey) -> DataFrame:
    """Read the keys of other batches: what Spark held of them and lost is read again, once this batch has its own."""
    rows = near(keys, keys.store.read(keys.session, keys.step.writes, version), one)
    return rows.where(~F.col(WINDOW_COLUMN).eqNullSafe(keys.mark))


def seen_task(task: Task, stream: Stream) -> Task:
    """Return the task that writes a batch's keys into the table of seen ones."""
    table = stream.seen
    assert table is not None  # noqa: S101 - a stream that processes keeps its keys
    step = replace(task.step, name=f"{stream.name}-keys", writes=table, nondeterministic="")
    return replace(task, step=step, target=replace(task.target, table=table))
