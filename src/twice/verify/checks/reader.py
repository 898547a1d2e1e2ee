"""`reader`: a reader during a publish sees a whole version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice import failpoints
from twice.errors import PermanentError
from twice.verify.reading import CAUSE, FIX, ReaderLoop, half
from twice.verify.trial import NotRun, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twice.model.steps import Step
    from twice.model.windows import Window
    from twice.verify.cases import Case, Picture
    from twice.verify.trial import Finding, Trial


class Reader:
    """Read every written table in a loop while the unit is published with other rows.

    The unit is first run on half of its input rows, then on all of them. At each point of a publish the table is read
    once more, and the others in turn; a read must find what a table held before or what it holds afterwards, in this
    order. A step that removes or changes what readers see before twice publishes fails.
    """

    name = "reader"
    promise = "readers see whole versions, before and after a publish and nothing in between"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Publish the unit while a reader reads its tables."""
        case = trial.case(trial.variants("half", half))
        _run(case, trial.before, "half of the input rows")
        _run(case, trial.unit, "half of the input rows")
        old = case.picture()
        case.read_from({**case.folders, **trial.inputs.folders})
        with ReaderLoop(case) as loop, failpoints.watched(loop.at):
            for step in trial.steps:
                loop.focus = step.writes.name
                _run(case, trial.unit, "restated input", [step.name])
        new = case.picture()
        changed = [step for step in trial.steps if old[step.writes.name] != new[step.writes.name]]
        if not changed:
            raise NotRun("no table changes when half of the input rows come later, so there is no publish to watch")
        if not loop.count:
            raise NotRun(f"nothing was read while the unit was published{': ' if loop.errors else ''}{loop.error}")
        findings = [finding for step in changed for finding in self._judge(trial, step, loop, old, new)]
        return Seen(f"{loop.count} reads of {len(changed)} table{'s' * (len(changed) > 1)} during the publish: "
                    "each saw a whole version", findings)  # fmt: skip

    def _judge(self, trial: Trial, step: Step, loop: ReaderLoop, old: Picture, new: Picture) -> list[Finding]:
        """Report what a reader should not have seen."""
        what = loop.problem(step.writes.name, old[step.writes.name], new[step.writes.name])
        return [trial.finding(self, step, what, cause=CAUSE, fix=FIX)] if what else []


def _run(case: Case, window: Window, on: str, steps: Sequence[str] | None = None) -> None:
    try:
        case.run(window, steps=steps)
    except PermanentError as error:
        raise NotRun(f"a run on {on} is refused: {error.message}") from error
