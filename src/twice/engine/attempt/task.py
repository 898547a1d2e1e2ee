"""Everything that one step of one run needs, handed from verb to verb."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, cast

from py4j.protocol import Py4JError

from twice.engine.chunks.options import ChunkOptions
from twice.engine.events import Event, Listener, State, ignore
from twice.engine.notebooks import plural
from twice.model.patterns import Overwrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.stores import Stores
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.scopes import Scope
    from twice.model.steps import Step
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.protocol import Store


@dataclass(frozen=True)
class Task:
    """One step of one run."""

    pipeline: Pipeline
    step: Step
    scope: Scope
    target: Target
    run: str
    code: str
    session: SparkSession
    stores: Stores
    ledger: Ledger
    lease: timedelta
    wait: float = 0.0
    skip_fresh: bool = False
    chunk: ChunkOptions = field(default_factory=ChunkOptions)
    accept_late: bool = False
    # The reason for each gate that this run accepts.
    accepted_gates: Mapping[str, str] = field(default_factory=dict)
    rebuild_after_wait: bool = False
    # The batch of a stream that the rows come from.
    batch: str = ""
    # Whether no caller waits for the result any more.
    abandoned: Callable[[], bool] = lambda: False
    number: int = 1
    attempt_id: int = 0
    listener: Listener = ignore

    @property
    def store(self) -> Store:
        """The store that the step writes to."""
        return self.stores.of(self.step.writes)

    @property
    def mark(self) -> str:
        """What a row of a table that is written by key records about its writer: the batch or the window."""
        return self.batch or str(self.scope.window)

    @cached_property
    def units(self) -> tuple[Window, ...]:
        """The units of the pipeline's grain that stand alone in this task; none, if it is not a chunk of several.

        What a merge leaves behind is judged and recorded as a whole.
        """
        window = self.scope.window
        if not self.chunk.partial or window is None or not isinstance(self.step.writes.write, Overwrite):
            return ()
        units = tuple(self.pipeline.grain.partitions(window, self.pipeline.zone))
        return units if len(units) > 1 else ()

    def unit_of(self, partition: Scope) -> Window | None:
        """Return the unit that a partition of the target belongs to; None if the task is not a chunk of several."""
        if not self.units or partition.window is None:
            return None
        return self.pipeline.grain.containing(partition.window.start, self.pipeline.zone)

    @property
    def group(self) -> str:
        """The Spark job group of the attempt, so that its jobs can be priced and cancelled together."""
        return f"twice-{self.run}-{self.step.name}-{self.attempt_id}"

    def cancel(self) -> None:
        """Cancel the step's running Spark jobs; a Spark that is gone has none."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.sparkContext.cancelJobGroup(self.group)

    def report(self, state: State, detail: str = "", data: Mapping[str, object] | None = None) -> None:
        """Report a change of state."""
        self.listener(
            Event(state, self.run, self.pipeline.name, str(self.target.scope), self.step.name, detail, data or {})
        )


@dataclass(frozen=True, repr=False)
class StepResult:
    """How a step ended for a scope."""

    step: str
    table: str
    scope: str
    status: str
    rows: int = 0
    digest: str = ""
    version: str | None = None
    attempts: int = 1
    seconds: float = 0.0
    error: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"StepResult({self.step} {self.scope}: {self.status}, {plural(self.rows, 'row')})"

    @property
    def accepted_gates(self) -> Sequence[Mapping[str, str]]:
        """What its gates found and the run accepted."""
        return cast("Sequence[Mapping[str, str]]", self.details.get("accepted_gates", ()))

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__) | {"details": dict(self.details), "refused": dict(self.refused)}
