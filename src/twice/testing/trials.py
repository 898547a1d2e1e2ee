"""A trial on inputs that a test gives: nothing of a project is needed, and nothing of production is read."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from twice.config import Config, StoreConfig
from twice.engine.run import Runtime
from twice.engine.stores import Stores
from twice.errors import UsageError, did_you_mean
from twice.ledger import open_ledger
from twice.model.pipelines import STEP_ATTRIBUTE, Pipeline
from twice.model.steps import Step
from twice.model.windows import Window
from twice.store.registry import DEFAULT, usable_types
from twice.testing.sessions import empty_folder, require_jars, without_project
from twice.testing.tables import table_of
from twice.verify.running import Request, prepared
from twice.verify.sandbox import Sandbox
from twice.verify.sources import CopiedSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.grains import Grain
    from twice.model.tables import Read, Table
    from twice.store.store_type import StoreType
    from twice.verify.trial import Outcome, Trial

Testable = Callable[..., Any] | Step | Pipeline
# By a table's name, or by the name under which a step reads it: rows, as a DataFrame or as literals.
Inputs = Mapping[str, "DataFrame | Sequence[Any]"]


@contextmanager
def trial_of(
    pipeline: Pipeline,
    window: str | Window,
    inputs: Inputs | None,
    spark: SparkSession,
    config: Config | None = None,
    steps: Sequence[str] | None = None,
) -> Iterator[Trial]:
    """Open a trial of a pipeline for one unit on given inputs, in a sandbox of its own.

    What is not given is made by the extract or step of the pipeline that writes it. Without a configuration, every
    store is an Iceberg catalog in the sandbox.
    """
    unit = unit_of(pipeline, window)
    given = _Given(pipeline, tuple(steps or ()), inputs or {})
    config = config or config_for(pipeline)
    require_jars(spark, config)
    with Sandbox.open(config, spark) as sandbox:
        source = CopiedSource(given.write(sandbox.folder / "given", sandbox.spark))
        stores = Stores(config, opened={table.id.store: source for table in pipeline.tables()})
        ledger = open_ledger(f"sqlite:///{sandbox.folder / 'given.db'}")
        request = Request(unit, steps=given.steps, place=import_path(pipeline))
        production = Runtime(sandbox.spark, stores, ledger, config.lease)
        yield prepared(production, sandbox, given.without_producers(), request)


def pipeline_of(thing: Testable, grain: Grain | None = None, time_zone: str = "UTC") -> Pipeline:
    """Return the pipeline to test; a single step is one by itself, by the grain of the table that it writes."""
    if isinstance(thing, Pipeline):
        return thing
    step = thing if isinstance(thing, Step) else getattr(thing, STEP_ATTRIBUTE, None)
    if step is None:
        raise UsageError(f"{getattr(thing, '__name__', thing)} is not a step: decorate it with @pipeline.step(…)")
    unit = grain or (step.writes.partition.grain if step.writes.partition else None)
    if unit is None:
        raise UsageError(f"{step.writes.name} has no partition: give the grain of the pipeline: grain=Day")
    found = Pipeline(step.pipeline, grain=unit, time_zone=time_zone)
    found.steps[step.name] = step
    return found


def unit_of(pipeline: Pipeline, window: str | Window) -> Window:
    """Return the one unit of the pipeline's grain that is to be tested."""
    if not isinstance(window, Window):
        return pipeline.grain.unit(str(window), pipeline.zone)
    units = [*pipeline.grain.partitions(window, pipeline.zone)]
    if len(units) > 1:
        raise UsageError(
            f"{window} holds {len(units)} units of the grain {pipeline.grain}: a promise is checked for one of them"
        )
    return units[0]


def config_for(pipeline: Pipeline, stores: Mapping[str, str] | None = None, project: Config | None = None) -> Config:
    """Return a configuration that knows every store that the pipeline writes to.

    A store is of the type that `stores` names, else as the project configures it, else an Iceberg catalog.
    """
    named = dict(stores or {})
    written = {table.id.store for table in pipeline.written()}
    types = {row.local.known_as or row.name: row for row in usable_types() if row.local is not None}
    for name, kind in named.items():
        if kind not in types:
            raise UsageError(
                f"stores: {name} has the type {kind!r}; it must be one of: {', '.join(types)}"
                f"{did_you_mean(kind, types)}"
            )
        if name not in written:
            raise UsageError(f"stores: no table of {pipeline.name} is in {name!r}{did_you_mean(name, written)}")
    known = project.stores if project is not None else {}
    made = {
        name: _store(name, types[named.get(name, DEFAULT)]) for name in written if name in named or name not in known
    }
    if project is None:
        return without_project(made)
    twins = {name: store for name, store in project.verify_stores.items() if name not in made}
    return replace(project, stores={**known, **made}, verify_stores=twins)


def import_path(pipeline: Pipeline) -> str:
    """Return `module:object` of a pipeline, as another process imports it; empty if no module has it."""
    steps = [step.function.__module__ for step in pipeline.steps.values() if step.function is not None]
    # A function may build a pipeline that another module keeps.
    for name in (name for name in dict.fromkeys((pipeline.module, *steps, *sys.modules)) if name != "__main__"):
        for attribute, value in list(getattr(sys.modules.get(name), "__dict__", {}).items()):
            if value is pipeline:
                return f"{name}:{attribute}"
    return ""


def failure(outcome: Outcome, *, repeat: bool = False) -> str:
    """Return what a check found; `repeat`: with the command that runs it again."""
    lines = [f"{outcome.check}: {outcome.promise}; this does not hold"]
    for finding in outcome.findings:
        lines += [line for line in finding.lines() if repeat or not line.startswith("  repeat: ")]
    return "\n".join(lines)


def _store(name: str, row: StoreType) -> StoreConfig:
    """Describe a store of a type; nothing is written there, only to its twin in a sandbox."""
    assert row.local is not None  # noqa: S101 - the types that tests may name have one
    return StoreConfig(name, row.name, row.local.filled(empty_folder(), name))


@dataclass(frozen=True)
class _Given:
    """What a test gives to a pipeline."""

    pipeline: Pipeline
    steps: tuple[str, ...]
    inputs: Inputs

    def write(self, folder: Path, spark: SparkSession) -> dict[str, str]:
        """Write every input once, so that all that read it read the same rows."""
        found: dict[str, str] = {}
        for number, (table, rows) in enumerate(self._by_table()):
            place = str(folder / str(number))
            zone = self.pipeline.zone.key
            frame = rows if isinstance(rows, DataFrame) else table_of(table, rows, spark=spark, time_zone=zone)
            frame.write.parquet(place)
            found[table.name] = place
        self._require(found)
        return found

    def without_producers(self) -> Pipeline:
        """Return the pipeline without the steps whose tables are given."""
        given = {table.id for table, _ in self._by_table()}
        found = copy.copy(self.pipeline)
        found.steps = {name: step for name, step in self.pipeline.steps.items() if step.writes.id not in given}
        return found

    def _by_table(self) -> Iterator[tuple[Table, Any]]:
        reads = [read for step in self.pipeline.ordered() for read in step.reads.items()]
        tables = {read.table.name: read.table for _, read in reads}
        by_name: dict[str, dict[str, Table]] = {}
        for name, read in reads:
            by_name.setdefault(name, {})[read.table.name] = read.table
        for name, rows in self.inputs.items():
            if name not in tables and name not in by_name:
                known = [*by_name, *tables]
                raise UsageError(
                    f"inputs: nothing of {self.pipeline.name} reads {name!r}; it reads "
                    f"{', '.join(tables) or 'nothing'}{did_you_mean(name, known)}"
                )
            found = {name: tables[name]} if name in tables else by_name[name]
            if len(found) > 1:
                raise UsageError(f"inputs: {name} is the name of several tables: use one of {', '.join(found)}")
            table = next(iter(found.values()))
            self._require_not_chosen(table)
            yield table, rows

    def _require_not_chosen(self, table: Table) -> None:
        producer = self.pipeline.producer(table)
        alone = len(self.pipeline.steps) == 1
        if producer is not None and (producer.name in self.steps or alone):
            raise UsageError(f"inputs: {table.name} is written by the step {producer.name}, which is to be tested")

    def _require(self, given: Mapping[str, str]) -> None:
        """Refuse a trial for which rows are missing that nothing in the pipeline makes."""
        chosen = [step for step in self.pipeline.ordered() if not self.steps or step.name in self.steps]
        for step, name, read in _reads(chosen):
            if read.table.name not in given and self.pipeline.producer(read.table) is None:
                raise UsageError(
                    f"step {step.name} reads {read.table.name}, and inputs= has no rows for it",
                    unchanged="nothing was run",
                    next_step=f'give them: inputs={{"{name}": table_of("…", […])}}',
                )


def _reads(steps: Sequence[Step]) -> Iterator[tuple[Step, str, Read]]:
    for step in steps:
        yield from ((step, name, read) for name, read in step.reads.items())
