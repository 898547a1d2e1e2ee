"""Before the checks: copy what the chosen steps read, once, so that every case reads the same rows.

Rows come from production where it has them. Where it has none, the sandbox runs the step or extract of the pipeline
that makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import column, row_hashes
from twice.engine.attempt.reading import cut_rows
from twice.engine.plan import PlannedStep
from twice.engine.run import task_of
from twice.engine.spark.session import fresh
from twice.errors import UsageError
from twice.model.framework import FRAMEWORK_COLUMNS
from twice.model.scopes import Scope
from twice.model.tables import Cut
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.protocol import Cutting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Read, Table
    from twice.verify.sandbox import Sandbox

_OFFERED = 3
_LOOKED_AT = 1000
# At most this many extracted units are fetched for one verification.
_MOST_UNITS = 40


@dataclass
class Inputs:
    """The copies, by the tables' names in production, and remarks about them."""

    folders: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    # Tables without rows in production, which the sandbox built.
    made: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    # Changed copies that checks have made, by the name of the change and the table.
    variants: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass
class Preparing:
    """Copies inputs for a window."""

    production: Runtime
    sandbox: Sandbox
    pipeline: Pipeline
    window: Window
    sample: int | None = None
    found: Inputs = field(default_factory=Inputs)

    def prepare(self, steps: Sequence[Step]) -> Inputs:
        """Copy every input of some steps that they do not write themselves."""
        self._copy_inputs(steps)
        if self.sample is not None and len(self.found.folders) > 1:
            self.found.warnings.append(
                f"each input was sampled to {self.sample:,} rows by itself: joins may find no partner, and a step that "
                "needs one is checked on fewer rows than it seems"
            )
        windowed = [
            (step, read)
            for step in steps
            for read in step.reads.values()
            if read.mode == "window" and read.table.name in self.found.folders
        ]
        if windowed and not any(self._has_rows(step, read) for step, read in windowed):
            raise self._no_data(steps) if self.sample is None else self._sampled_away()
        return self.found

    @property
    def _unit(self) -> Window:
        return [*self.pipeline.grain.partitions(self.window, self.pipeline.zone)][-1]

    def _has_rows(self, step: Step, read: Read) -> bool:
        """Return whether a step sees any row of an input in the unit itself."""
        task = task_of(self.production, self.pipeline, self._stage(step), "verify")
        cut = read.cut(self._unit, step.writes.lateness, self.pipeline.zone)
        rows = task.session.read.parquet(self.found.folders[read.table.name])
        return not cut_rows(task, read, cut, rows).isEmpty()

    def _copy_inputs(self, steps: Sequence[Step]) -> None:
        own = {step.writes.id for step in steps}
        wanted: dict[str, list[tuple[Step, Read]]] = {}
        for step in steps:
            for read in step.reads.values():
                if read.table.id not in own and read.table.name not in self.found.folders:
                    wanted.setdefault(read.table.name, []).append((step, read))
        for reads in wanted.values():
            self._copy(reads)

    def _copy(self, reads: Sequence[tuple[Step, Read]]) -> None:
        table = reads[0][1].table
        producer = self.pipeline.producer(table)
        rows = self._production(reads)
        # An extract or a step may still have to build the rows; a table of another writer is taken as it is.
        if rows is not None and (producer is None or not rows.isEmpty()):
            self._keep(table, rows)
            return
        if producer is None:
            raise UsageError(
                f"step {reads[0][0].name}: its input {table.name} does not exist",
                unchanged="nothing was written",
                next_step=f"create {table.name}, or correct the name in its Table(…)",
            )
        self._keep(table, self._made(producer, reads))

    def _production(self, reads: Sequence[tuple[Step, Read]]) -> DataFrame | None:
        """Read what production has, cut to what the steps see of it in the window."""
        table = reads[0][1].table
        source = self.production.stores.source(table)
        session = fresh(self.production.spark, self.pipeline.zone.key)
        if not source.exists(session, table):
            return None
        version = source.version(session, table)
        step, read = reads[0]
        task = replace(task_of(self.production, self.pipeline, self._stage(step), "verify"), session=session)
        cut = self._widest(reads)
        if cut is None:
            return source.read(session, table, version)
        if isinstance(source, Cutting) and read.mode == "window":
            rows = source.read_cut(session, table, version, cut, {}, self.pipeline.zone)
        else:
            rows = source.read(session, table, version)
        return cut_rows(task, read, cut, rows)

    def _widest(self, reads: Iterable[tuple[Step, Read]]) -> Cut | None:
        """Return the bounds of everything that is read of a table; None: all of it."""
        cuts = [(read.mode, read.cut(self.window, step.writes.lateness, self.pipeline.zone)) for step, read in reads]
        if len({mode for mode, _ in cuts}) > 1 or cuts[0][0] == "latest":
            return None
        bounds = [cut for _, cut in cuts]
        return Cut(_around([cut.partitions for cut in bounds]), _around([cut.event for cut in bounds]))

    def _made(self, producer: Step, reads: Sequence[tuple[Step, Read]]) -> DataFrame:
        """Let the sandbox make a table that production does not have."""
        self._copy_inputs([producer])
        cut = self._widest(reads)
        reach = cut.partitions if cut is not None and cut.partitions is not None else self.window
        grain, zone = self.pipeline.grain, self.pipeline.zone
        start = grain.floor(reach.start, zone)
        units = [*grain.partitions(Window(start, max(reach.end, self.window.end)), zone)]
        if len(units) > _MOST_UNITS:
            units = [*grain.partitions(self.window, zone)]
        case = self.sandbox.case(self.pipeline, self.found.folders, frozenset([producer.name]))
        case.run(*units)
        self.found.made.append(producer.writes.name)
        rows = case.rows(producer.writes.name)
        assert rows is not None  # noqa: S101 - it was just written
        return rows

    def _keep(self, table: Table, rows: DataFrame) -> None:
        kept = rows.drop(*(name for name in rows.columns if name in FRAMEWORK_COLUMNS))
        if self.sample is not None:
            kept = kept.orderBy(*row_hashes(kept.schema)).limit(self.sample)
        inputs = self.sandbox.folder / "inputs"
        number = sum(1 for _ in inputs.glob("*-as-is")) if inputs.exists() else 0
        folder = str(inputs / f"{number}-as-is")
        kept.write.parquet(folder)
        self.found.folders[table.name] = folder
        self.found.rows[table.name] = kept.sparkSession.read.parquet(folder).count()

    def _stage(self, step: Step) -> PlannedStep:
        scope = Scope.of(self.window)
        return PlannedStep(step, scope, Target.of(step.writes, scope, self.pipeline.zone))

    def _sampled_away(self) -> UsageError:
        label = self.pipeline.grain.label(self._unit.start, self.pipeline.zone)
        return UsageError(
            f"the sample of {self.sample:,} rows has none of {label}, or its inputs have none",
            unchanged="nothing was written",
            next_step="give a larger --sample, or leave it out",
        )

    def _no_data(self, steps: Sequence[Step]) -> UsageError:
        """Return the error that there is nothing to check, with units that have rows."""
        offered: list[str] = []
        for step in steps:
            for read in step.reads.values():
                if read.mode == "window" and not offered:
                    offered = self._units_with_rows(read.table)
        grain, zone = self.pipeline.grain, self.pipeline.zone
        asked = grain.label(self._unit.start, zone)
        return UsageError(
            f"no input of {self.pipeline.name} has rows for {asked}",
            unchanged="nothing was written",
            next_step=f"choose one that has: --for {' or --for '.join(offered)}"
            if offered
            else "deliver its inputs first",
        )

    def _units_with_rows(self, table: Table) -> list[str]:
        source = self.production.stores.source(table)
        session = fresh(self.production.spark, self.pipeline.zone.key)
        name = table.event_time or (table.partition.column if table.partition else None)
        if name is None or not source.exists(session, table):
            return []
        rows = source.read(session, table, source.version(session, table))
        hours = rows.select(F.date_trunc("HOUR", column(name)).alias("at")).where("at is not null").distinct()
        last = hours.orderBy(F.desc("at")).limit(_LOOKED_AT).select(F.unix_seconds("at")).collect()
        grain, zone = self.pipeline.grain, self.pipeline.zone
        moments = (datetime.fromtimestamp(row[0], tz=timezone.utc) for row in last)
        return [*dict.fromkeys(grain.label(grain.floor(moment, zone), zone) for moment in moments)][:_OFFERED]


def _around(windows: Sequence[Window | None]) -> Window | None:
    found = [window for window in windows if window is not None]
    if len(found) < len(windows) or not found:
        return None
    return reduce(lambda one, other: Window(min(one.start, other.start), max(one.end, other.end)), found)
