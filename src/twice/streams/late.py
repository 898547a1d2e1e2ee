"""Events that were too old for a window: landed in a table of their own, by the offsets of their batch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from twice.errors import StepFailed, StreamRefused
from twice.model.streams import StreamMark, Windowed
from twice.streams.batch import Batch, take_as_is
from twice.streams.replay import read_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.ledger import BatchInfo
    from twice.streams.context import Context
    from twice.streams.dedup.rows import Counts

log = logging.getLogger("twice")

# How many batches are searched for late events that were not recorded, because their run died.
_UNTOLD = 100


def complete(context: Context) -> None:
    """Land the late events of batches whose run died before it could."""
    stream, query = context.stream, context.checkpoint.query
    if not isinstance(stream.dedup, Windowed) or query is None:
        return
    batches = context.runtime.ledger.streams.batches
    newest = batches.list(stream.pipeline, stream.name, query=query, limit=_UNTOLD)
    for info in sorted(newest, key=lambda each: each.batch):
        if info.ended_at is not None and info.late is None and stream.dedup.late is not None:
            try:
                batches.note(info, {"late": land(context, info)})
            except (StreamRefused, StepFailed) as error:
                # The source has removed them since; the stream itself can continue.
                log.warning("late events of batch %s were not landed: %s", info.batch, error.message)


def land(context: Context, info: BatchInfo) -> int:
    """Bring the late events of a batch into the table that is declared for them; return how many there were."""
    dedup = context.stream.dedup
    if not isinstance(dedup, Windowed) or dedup.late is None:
        return 0
    table, seen = dedup.late, [0]

    def use(events: DataFrame) -> None:
        def count(counts: Counts) -> None:
            seen[0] = counts.rows_in

        mark = StreamMark(context.stream.full_name, info.query, info.batch)
        done = take_as_is(context.task(events.sparkSession, table), Batch(context.stream, mark, events, count))
        if done.status == "fresh":  # landed before, by a run that died before it recorded that
            seen[0] = events.count()

    read_again(context, info, use, late=True)
    return seen[0]
