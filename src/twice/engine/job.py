"""Everything that one step of one run needs, handed from verb to verb."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from twice.engine.events import Event, Listener, State, ignore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.stores import Stores
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.scopes import Scope
    from twice.model.steps import Step
    from twice.model.targets import Target
    from twice.store.protocol import Store


@dataclass(frozen=True)
class Job:
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
    listener: Listener = ignore

    @property
    def store(self) -> Store:
        """The store that the step writes to."""
        return self.stores.of(self.step.writes)

    @property
    def group(self) -> str:
        """The Spark job group of the step, so that its jobs can be cancelled together."""
        return f"twice-{self.run}-{self.step.name}"

    def cancel(self) -> None:
        """Cancel the step's running Spark jobs; a Spark that is gone has none."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.sparkContext.cancelJobGroup(self.group)

    def tell(self, state: State, detail: str = "", data: Mapping[str, object] | None = None) -> None:
        """Report a change of state."""
        self.listener(
            Event(state, self.run, self.pipeline.name, str(self.target.scope), self.step.name, detail, data or {})
        )


@dataclass(frozen=True)
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

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__) | {"details": dict(self.details)}
