"""What everything that reads or writes a stream shares."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.attempt.task import Task
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.streams import Stream
    from twice.model.tables import Table
    from twice.streams.checkpoints import Checkpoint


@dataclass(frozen=True)
class Context:
    """A stream, its checkpoint, and the run that works on it."""

    runtime: Runtime
    pipeline: Pipeline
    stream: Stream
    checkpoint: Checkpoint
    run: str
    session: SparkSession
    # What is read, as the ledger keeps it.
    source: str = ""
    # Set when the stream is to end: no batch waits for its turn any longer.
    stopping: threading.Event = field(default_factory=threading.Event)

    def task(self, session: SparkSession, table: Table | None = None) -> Task:
        """Return the task that writes one batch, in the session of its query."""
        step = self.stream.step if table is None else replace(self.stream.step, writes=table)
        whole = Scope(None)
        return Task(
            pipeline=self.pipeline,
            step=step,
            scope=whole,
            target=Target(step.writes, whole, (whole,), self.pipeline.zone, by_key=True),
            run=self.run,
            code=fingerprint(step),
            session=session,
            stores=self.runtime.stores,
            ledger=self.runtime.ledger,
            lease=self.runtime.lease,
            # If another run holds the table, this one waits for its end.
            wait=timedelta(days=7).total_seconds(),
            listener=self.runtime.listener,
            abandoned=self.stopping.is_set,
        )
