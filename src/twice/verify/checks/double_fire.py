"""`double-fire`: two runs of the same unit at once are one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from twice.verify.children import Children
from twice.verify.reading import CAUSE, FIX, ReaderLoop
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twice.verify.cases import Case, Picture
    from twice.verify.children import Ended
    from twice.verify.trial import Finding, Trial


class DoubleFire:
    """Start two processes for the same unit at the same moment, as a scheduler that triggers twice does.

    The tables must be those of a clean run, with one new version each; one of the two works, the other one ends held
    or finds nothing to change. Meanwhile the tables are read in a loop, and every read must see a whole version. A step
    whose rows depend on how often or in which process it was called fails.
    """

    name = "double-fire"
    promise = "two runs of a unit at once publish it once"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit in two processes at once, and compare with a clean run."""
        with Children(trial) as children:
            children.prepare()
            case = trial.case()
            case.run(trial.before)
            old = case.picture()
            pair = [children.start(case, trial.unit) for _ in range(2)]
            for child in pair:
                child.until_ready()
            with ReaderLoop(case) as loop:
                for child in pair:
                    child.go()
                ends = [children.end(child) for child in pair]
        if broken := next((ended.broken for ended in ends if ended.broken), ""):
            raise NotRun(f"a second process could not run the pipeline: {broken}")
        names = ("in a clean run", "after two runs at once")
        findings = trial.differences(self, case, names=names, why=_WHY) + self._twice(trial, case, ends)
        if not findings:
            findings = self._seen(trial, loop, old)
        how = " and ".join(map(_text, ends))
        reads = f"{loop.count} reads meanwhile saw whole versions"
        return Seen(f"two processes at once: {how}; the rows are those of a clean run, and {reads}",
                    findings + self._failed(trial, ends))  # fmt: skip

    def _twice(self, trial: Trial, case: Case, ends: Sequence[Ended]) -> list[Finding]:
        """Report tables that both runs published."""
        count = Counter(table for ended in ends for table in ended.published())
        return [
            trial.finding(
                self,
                step,
                f"two runs at once published {count[case.names[step.writes.name]]} versions, one after the other",
                cause="the second run made other rows than the first one: its result is not a function of its inputs",
                fix=_WHY.fix,
            )
            for step in trial.compared
            if count[case.names[step.writes.name]] > 1
        ]

    def _seen(self, trial: Trial, loop: ReaderLoop, old: Picture) -> list[Finding]:
        """Report tables of which a reader saw something in between."""
        problems = {step: loop.problem(name := step.writes.name, old[name], trial.expected[name])
                    for step in trial.compared}  # fmt: skip
        return [trial.finding(self, step, what, cause=CAUSE, fix=FIX) for step, what in problems.items() if what]

    def _failed(self, trial: Trial, ends: Sequence[Ended]) -> list[Finding]:
        """Report a run that ended otherwise than done or held."""
        wrong = [ended for ended in ends if any(run["status"] not in ("done", "held") for run in ended.runs)]
        return [
            trial.finding(
                self,
                trial.steps[-1],
                f"one of two runs at once failed: {ended.problem}",
                cause="the runs share something beside their tables, such as a file or a lock",
                fix="let a step use nothing but its inputs and the window",
            )
            for ended in wrong
        ]


_WHY = Why(
    what="two runs at once leave other rows than a clean run",
    cause="its rows depend on how often or in which process the step was called",
)


def _text(ended: Ended) -> str:
    """Return how one of the runs ended."""
    count = len(ended.published())
    if count:
        return f"one published {count} table{'s' * (count > 1)}"
    return "one ended held" if ended.runs[-1]["status"] == "held" else "one had nothing to change"
