"""How the work of a chunk is spread over tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from twice.content.counts import expected_rows
from twice.content.task_per_partition import pays
from twice.store.protocol import Grouping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.inputs import Pinned
    from twice.engine.attempt.task import Task
    from twice.store.protocol import StagedRows


@contextmanager
def spread(task: Task, inputs: Sequence[Pinned], bound: Mapping[str, DataFrame]) -> Iterator[None]:
    """Read a chunk by whole partitions per task, where that pays: rows of separate partitions need no shuffle."""
    with ExitStack() as grouped:
        for source in _sources(task, inputs, bound):
            grouped.enter_context(source.grouped(task.session))
        yield


def _sources(task: Task, inputs: Sequence[Pinned], bound: Mapping[str, DataFrame]) -> list[Grouping]:
    """Return the sources of a chunk that is to be read this way; none if one of them cannot, or it does not pay."""
    if not task.units:
        return []
    read = [pinned for pinned in inputs if pinned.read.mode == "window" and pinned.cut.partitions is not None]
    sources = [task.stores.source(pinned.read.table) for pinned in read]
    able: list[Grouping] = [source for source in sources if isinstance(source, Grouping)]
    if not able or len(able) < len(sources):
        return []
    counts = [expected_rows(bound[pinned.name]) for pinned in read]
    pay = all(count is not None and pays(task.session, len(task.units), count) for count in counts)
    return able if pay else []


@contextmanager
def staged_rows(task: Task, stage: StagedRows, *, unique: bool = False) -> Iterator[DataFrame]:
    """Read the scope as it would be after the publish, so that its keys can be counted in the block.

    Counting by partition and key needs no shuffle where tasks hold whole partitions; `unique` keys are not counted.
    """
    store = task.store
    with ExitStack() as grouped:
        if (
            isinstance(store, Grouping)
            and not unique
            and pays(task.session, len(task.target.partitions), stage.written)
        ):
            grouped.enter_context(store.grouped(task.session))
        yield task.store.staged(task.session, stage)
