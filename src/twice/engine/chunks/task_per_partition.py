"""How the work of a chunk is spread over tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twice.content.counts import expected_rows
from twice.content.spreading import pays
from twice.store.protocol import Grouping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.inputs import Pinned
    from twice.engine.attempt.job import Job


def spread(job: Job, inputs: Sequence[Pinned], bound: Mapping[str, DataFrame]) -> None:
    """Read a chunk by whole partitions per task, where that pays: its partitions do not meet, so rows need not move."""
    if not job.units:
        return
    read = [pinned for pinned in inputs if pinned.read.mode == "window" and pinned.cut.partitions is not None]
    sources = [job.stores.source(pinned.read.table) for pinned in read]
    able = [source for source in sources if isinstance(source, Grouping)]
    if not able or len(able) < len(sources):
        return
    counts = [expected_rows(bound[pinned.name]) for pinned in read]
    if all(count is not None and pays(job.session, len(job.units), count) for count in counts):
        for source in able:
            source.group(job.session, on=True)
