"""One case: the pipeline on tables of its own, run as often and in the way that a check needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.content.digest import Digest
from twice.content.profile import profile
from twice.content.schema import schema_fingerprint
from twice.engine.plan import plan
from twice.engine.run import execute
from twice.engine.spark.session import fresh
from twice.model.framework import FRAMEWORK_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.engine.run import RunResult, Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.tables import Table
    from twice.model.windows import Window
    from twice.verify.effects import Recorder
    from twice.verify.sources import CopiedSource

# What each table of a case holds; None: it does not exist.
Picture = Mapping[str, "Digest | None"]


@dataclass
class Case:
    """Tables, a ledger and copies of inputs that no other case sees."""

    mark: str
    pipeline: Pipeline
    # By the name of a table in production: its name in this case.
    names: Mapping[str, str]
    runtime: Runtime
    source: CopiedSource
    recorder: Recorder
    # What its tables hold, of a case that others are compared with.
    final: Picture | None = None

    def run(self, *windows: Window, steps: Sequence[str] | None = None) -> RunResult:
        """Run the pipeline for windows, one after the other; raise what stops it."""
        for window in windows:
            result = self.try_run(window, steps=steps)
            if result.error:
                raise result.error
        return result

    def try_run(self, window: Window, *, steps: Sequence[str] | None = None, wait: float = 0.0) -> RunResult:
        """Run the pipeline for a window; its error is part of the result."""
        return execute(
            self.runtime, self.pipeline, plan(self.pipeline, window, steps=steps), wait=wait, accept_late=True
        )

    @property
    def folders(self) -> dict[str, str]:
        """The copies that the case reads, by the tables' names in production."""
        known = {here: name for name, here in self.names.items()}
        return {known.get(here, here): path for here, path in self.source.folders.items()}

    def read_from(self, folders: Mapping[str, str]) -> None:
        """Let the next run find other inputs, by their names in production."""
        self.source.folders = {self.names.get(name, name): path for name, path in folders.items()}

    @property
    def tables(self) -> dict[str, Table]:
        """The written tables, by their names in production."""
        written = {step.writes.name: step.writes for step in self.pipeline.steps.values()}
        return {name: written[here] for name, here in self.names.items() if here in written}

    def rows(self, name: str, session: SparkSession | None = None) -> DataFrame | None:
        """Read a written table past the engine, without the framework's columns; None if it does not exist."""
        table, spark = self.tables[name], session or fresh(self.runtime.spark, self.pipeline.zone.key)
        store = self.runtime.stores.of(table)
        if not store.exists(spark, table):
            return None
        found = store.read(spark, table, store.version(spark, table))
        return found.drop(*(each for each in found.columns if each in FRAMEWORK_COLUMNS))

    def picture(self) -> dict[str, Digest | None]:
        """Return what each table holds."""
        return {name: self.digest(name) for name in self.tables}

    def digest(self, name: str) -> Digest | None:
        """Return what one table holds."""
        rows = self.rows(name)
        if rows is None:
            return None
        found = profile(rows, partition=(), key=())
        return next((each.digest for each in found.values()), Digest.empty(schema_fingerprint(rows.schema)))

    def versions(self) -> dict[str, str | None]:
        """Return the version of each table that its readers see."""
        spark = self.runtime.spark
        return {name: self.runtime.stores.of(table).version(spark, table) for name, table in self.tables.items()}
