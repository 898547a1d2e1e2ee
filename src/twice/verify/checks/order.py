"""`order`: whichever unit is run first, the tables are the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from twice.engine.attempt.lateness import brings_late_rows
from twice.engine.notebooks import plural
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twice.model.steps import Step
    from twice.verify.cases import Case
    from twice.verify.trial import Finding, Trial

_PATIENCE = 120.0


def _newer_first(trial: Trial, steps: Sequence[Step]) -> Case:
    if len(steps) == len(trial.steps):
        case = trial.take_alone()
    else:
        case = trial.case(steps=steps)
        case.run(trial.unit)
    case.run(trial.before)
    return case


def _older_again(trial: Trial, steps: Sequence[Step]) -> Case:
    if len(steps) == len(trial.steps):
        return trial.run_on_clean(trial.before)[0]
    case = trial.case(steps=steps)
    case.run(trial.before, trial.unit, trial.before)
    return case


def _at_once(trial: Trial, steps: Sequence[Step]) -> Case:
    case = trial.case(steps=steps)
    case.run(trial.before)  # the tables exist: creating them at once is not what is checked
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(case.try_run, window, wait=_PATIENCE) for window in (trial.before, trial.unit)]
        for done in runs:
            if (error := done.result().error) is not None:
                raise error
    return case


_ORDERS = {"newer unit first": _newer_first, "older unit once more": _older_again, "both at once": _at_once}


class Order:
    """Run two units in the other order, the older one after the newer one, and both at once.

    A step that declares `depends_on_past=True` has one order. A step that reads another step's table as it is at the
    moment of the run (`.latest()`), looks back in it or waits for its late rows is about that moment. Neither is
    compared, nor what reads of them.
    """

    name = "order"
    promise = "units may be run in any order, and at the same time"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit and the one before it in every order."""

        def moment(step: Step) -> bool:
            return step.depends_on_past or trial.reads_made(
                step, lambda read: read.mode == "latest" or bool(read.lookback) or brings_late_rows(read)
            )

        steps = trial.untouched_by(moment)
        if not steps:
            raise NotRun("every step builds on its own past, or reads a table as it is at the moment of the run")
        findings: list[Finding] = []
        for order, run in _ORDERS.items():
            case = run(trial, trial.untouched_by(lambda step: step.depends_on_past))
            why = Why(
                what=f"its rows depend on the order of the runs: {order}",
                cause="the step replaces or reads more than its own unit, or its rows have no version that decides",
                fix="cut what it reads to the window, write by unit, and merge by a version: Merge(version=…)",
            )
            names = ("in order", order)
            known = {finding.step for finding in findings}
            more = trial.differences(self, case, names=names, why=why, steps=steps)
            findings += [finding for finding in more if finding.step not in known]
        left = [step.name for step in trial.compared if step not in steps]
        aside = f"; not compared, because it is about the moment of its run: {', '.join(left)}" if left else ""
        return Seen(f"{plural(len(steps), 'table')}: the same rows in {len(_ORDERS) + 1} orders{aside}", findings)
