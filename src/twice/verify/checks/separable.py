"""`separable`: one job over many units gives the rows that one job each gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.engine.attempt.lateness import brings_late_rows
from twice.engine.notebooks import plural
from twice.model.patterns import Whole
from twice.model.windows import Window
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from twice.errors import TwiceError
    from twice.model.steps import Step
    from twice.verify.cases import Case
    from twice.verify.trial import Finding, Trial

_CAUSE = (
    "rows of one unit depend on rows of another: a rank, a total or a window function over everything that it reads"
)
_FIX = (
    "group, rank and aggregate by the partition column too; or declare separable=False, so that a backfill computes "
    "every unit alone"
)


class Separable:
    """Run the unit before and the unit as one job: the same rows as one job each.

    A step that ranks, numbers or adds up over everything that it reads fails: a backfill or a run over several units
    would give other rows than the daily run. Steps that take one unit at a time are not compared: those with
    `depends_on_past=True`, `separable=False` or `Whole()`, and those that look back or read nothing by window.
    """

    name = "separable"
    promise = "one job over many units gives the rows that one job for each of them gives"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Run both units as one, step by step, and compare."""
        apart = {step.name: reason for step in trial.steps if (reason := _one_at_a_time(step))}
        checked = [step for step in trial.compared if step.name not in apart]
        if not checked:
            raise NotRun(f"no step takes several units at once: {_listed(apart) or 'no table can be compared'}")
        together = trial.case()
        if refused := _run_together(trial, together, apart):
            return Seen("", [self._refused(trial, *refused)])
        names = ("unit by unit", "in one job over both")
        why = Why(what=f"one job over {_units(trial)} gives other rows than one job each", cause=_CAUSE, fix=_FIX)
        findings = trial.differences(self, together, against=_unit_by_unit(trial), names=names, why=why)
        aside = f"; not compared: {_listed(apart)}" if apart else ""
        return Seen(
            f"{plural(len(checked), 'table')}: one job over {_units(trial)} equals unit by unit{aside}", findings
        )

    def _refused(self, trial: Trial, step: Step, error: TwiceError) -> Finding:
        what = f"one job over {_units(trial)} is refused, one job each is not: {error.message}"
        return trial.finding(self, step, what, cause=_CAUSE, fix=_FIX)


def _run_together(trial: Trial, case: Case, apart: dict[str, str]) -> tuple[Step, TwiceError] | None:
    """Run each step for both units at once where it may be; return the first step that cannot."""
    both = Window(trial.before.start, trial.unit.end)
    for step in trial.steps:
        if step.name in apart:
            case.run(trial.before, trial.unit, steps=[step.name])
        elif (error := case.try_run(both, steps=[step.name]).error) is not None:
            return step, error
    return None


def _unit_by_unit(trial: Trial) -> Case | None:
    """Return what to compare with; None: the clean run.

    A step that reads the current state or late rows of another step's table sees, in one job, what that table holds
    after both units. It is compared with runs that see the same.
    """
    written = {step.writes.id for step in trial.steps}
    if not any(
        read.table.id in written and (read.mode == "latest" or brings_late_rows(read))
        for step in trial.steps
        for read in step.reads.values()
    ):
        return None
    case = trial.case()
    for step in trial.steps:
        case.run(trial.before, trial.unit, steps=[step.name])
    return case


def _one_at_a_time(step: Step) -> str:
    """Return why a step takes one unit at a time, if it does."""
    if step.depends_on_past:
        return "builds on its own past"
    if step.separable is False:
        return "declared separable=False"
    if isinstance(step.writes.write, Whole):
        return "replaces the whole table"
    if back := [name for name, read in step.reads.items() if read.lookback]:
        return f"looks back in {back[0]}"
    return "" if any(read.mode == "window" for read in step.reads.values()) else "reads nothing by window"


def _listed(apart: dict[str, str]) -> str:
    return ", ".join(f"{name} ({why})" for name, why in apart.items())


def _units(trial: Trial) -> str:
    grain, zone = trial.pipeline.grain, trial.pipeline.zone
    return " and ".join(grain.label(window.start, zone) for window in (trial.before, trial.unit))
