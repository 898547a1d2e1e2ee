"""`gates`: every gate fails on a result that is wrong."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.filters import scope_filter
from twice.content.rows import column
from twice.engine.attempt.gating import judge
from twice.engine.plan import plan
from twice.engine.run import task_of
from twice.errors import GateFailed
from twice.model import gates as g
from twice.verify.trial import NotRun, Seen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from twice.engine.attempt.task import Task
    from twice.engine.plan import PlannedStep
    from twice.model.tables import Table
    from twice.verify.trial import Trial

log = logging.getLogger("twice")

_MOST = 1_000_000
_ODD_TEXT = "twice: not an expected value"


class Gates:
    """Break the published rows of a unit in many ways; each gate must refuse at least one of them.

    Nulls, values outside bounds, repeated rows, no rows, many rows, other texts, other numbers. A gate that lets
    everything through proves nothing.
    """

    name = "gates"
    promise = "every gate can fail"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Hand broken rows to every gate."""
        case, count, findings = trial.clean, 0, []
        silent: list[str] = []
        kept: list[str] = []
        planned_steps = {planned.step.name: planned for planned in plan(case.pipeline, trial.unit)}
        for step in trial.steps:
            for gate in step.writes.gates:
                count += 1
                planned = planned_steps[step.name]
                task = task_of(case.runtime, case.pipeline, planned, "verify")
                rows = case.rows(step.writes.name, task.session)
                assert rows is not None  # noqa: S101 - the clean run has ended
                if rows.where(scope_filter(task.target)).isEmpty():
                    silent.append(step.name)
                elif (can_fail := self._can_fail(_with_gate(task, planned, gate), gate, rows)) is None:
                    kept.append(gate.text)
                elif not can_fail:
                    findings.append(
                        trial.finding(
                            self,
                            step,
                            f"the gate `{gate.text}` passed every broken result",
                            cause="its bounds hold for any value, or it looks at something else than the rows",
                            fix="tighten the gate, or remove it",
                        )
                    )
        if not count:
            raise NotRun("the chosen steps' tables declare no gates")
        asides = [f"because the unit has no rows: those of {', '.join(dict.fromkeys(silent))}"] if silent else []
        asides += [f"because it is about the partition, which the write decides: {', '.join(kept)}"] if kept else []
        if len(silent) + len(kept) == count:
            raise NotRun(f"no gate can be shown to fail, {'; '.join(asides)}")
        aside = f"; not shown, {'; '.join(asides)}" if asides else ""
        shown = count - len(silent) - len(kept)
        return Seen(f"{shown} gates, each of which refuses a broken result{aside}", findings)

    def _can_fail(self, task: Task, gate: g.Gate, rows: DataFrame) -> bool | None:
        """Return whether a gate refuses a broken result; None if there is none for it."""
        tried = False
        for broken in _broken(gate, rows.where(scope_filter(task.target)), task.step.writes):
            tried = True
            try:
                judge(task, broken)
            except GateFailed:
                return True
            except Exception as error:  # noqa: BLE001 - broken rows may break the gate's own code: it has no result
                log.debug("gate %s on a broken result: %s", gate.text, error)
        return False if tried else None


def _with_gate(task: Task, planned: PlannedStep, gate: g.Gate) -> Task:
    """Return the task of a table with no other gate and no key: only this gate can refuse its rows."""
    table = copy.copy(planned.step.writes)
    object.__setattr__(table, "gates", (gate,))
    object.__setattr__(table, "key", ())
    return replace(task, step=replace(planned.step, writes=table), target=replace(task.target, table=table))


def _broken(gate: g.Gate, rows: DataFrame, table: Table) -> Iterator[DataFrame]:
    """Yield broken results, those first that the gate is about."""
    kept = {table.partition.column.lower()} if table.partition is not None else set()
    if isinstance(gate, g.NotNull | g.Accepted | g.Range):
        if gate.column.lower() in kept:
            return
        yield from _with_values(rows, gate.column)
        if isinstance(gate, g.Range) and isinstance(rows.schema[gate.column].dataType, T.NumericType):
            bounds = [F.lit(gate.min).cast("double") - 1, F.lit(gate.max).cast("double") + 1]
            for value in bounds:
                yield rows.withColumn(gate.column, value.try_cast(rows.schema[gate.column].dataType))
        return
    yield rows.where(F.lit(False))
    yield rows.unionByName(rows)
    if isinstance(gate, g.Unique):
        return
    if isinstance(gate, g.RowCount | g.RowCountChange):
        copies = (gate.max // max(rows.count(), 1) + 2) if isinstance(gate, g.RowCount) and gate.max else 20
        if copies <= _MOST:
            yield rows.crossJoin(rows.sparkSession.range(copies).select()).select(*rows.columns)
        return
    for name in rows.columns:
        if name.lower() not in kept:
            yield from _with_values(rows, name)


def _with_values(rows: DataFrame, name: str) -> Iterator[DataFrame]:
    """Yield the rows with other values in a column: null, and values at the far ends of its type."""
    kind = rows.schema[name].dataType
    values: list[Column] = [F.lit(None)]
    if isinstance(kind, T.NumericType):
        number = column(name).cast("double")
        values += [-F.abs(number) - 1, number * 1000 + 1, F.lit(0), F.lit(-9_999_999), F.lit(9_999_999)]
    elif isinstance(kind, T.StringType):
        values += [F.lit(_ODD_TEXT), F.lit("")]
    elif isinstance(kind, T.BooleanType):
        values += [F.lit(True), F.lit(False)]
    elif isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType):
        values += [F.lit("0001-01-02"), F.lit("9998-12-30")]
    for value in values:
        yield rows.withColumn(name, value.try_cast(kind))
