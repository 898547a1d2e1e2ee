"""`crash`: killed at every point of a publish, then run again, it is what a clean run makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twice import failpoints
from twice.failpoints import FAIL_POINTS
from twice.verify.children import Children
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from twice.engine.events import Event
    from twice.verify.cases import Case
    from twice.verify.trial import Finding, Trial

# The point that only a run after a death reaches.
_RECOVERY = "recover.dropped"


@dataclass
class Crash:
    """Kill a process in each step, at each point of a publish that the step reaches; run again, and compare.

    Which points a step reaches is recorded in a run of it, not assumed: they differ by store and by what is published.
    A step that keeps something of a run outside of its tables (a counter, a file, a cache) fails. The summary says how
    often a process was killed and from which states the next run went on; a point at which none died is named as not
    covered.
    """

    # Of the points that are reached, only these; none: all.
    points: Sequence[str] = ()
    name = "crash"
    promise = "a unit that is killed at any point and run again has the rows of a clean run"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Make one case per point, and kill each step of it once."""
        with Children(trial) as children:
            deaths = _Deaths(self, trial, children)
            reached = deaths.reached()
            wanted = [point for point in FAIL_POINTS if any(point in found for found in reached.values())]
            for point in [*wanted, _RECOVERY]:
                if not self.points or point in self.points:
                    deaths.at(point, reached)
        if not deaths.died:
            raise NotRun(f"no process died at a fail point: {'; '.join(deaths.missed) or 'none was reached'}")
        return Seen(deaths.summary(), deaths.findings)


@dataclass
class _Deaths:
    """What was killed, and what came of it."""

    check: Crash
    trial: Trial
    children: Children
    died: list[tuple[str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    recovered: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def reached(self) -> dict[str, list[str]]:
        """Run the unit undisturbed, step by step; return the points that each step reaches."""
        case, found = self.trial.case(), {}
        self.children.prepare()
        case.run(self.trial.before)
        for step in self._steps(case):
            names: list[str] = []
            with failpoints.watched(names.append):
                case.run(self.trial.unit, steps=[step])
            found[step] = list(dict.fromkeys(names))
        return found

    def at(self, point: str, reached: Mapping[str, Sequence[str]]) -> None:
        """Kill each step of a new case at a point, each time run it again, then compare with a clean run."""
        case = self.trial.case()
        case.workshop = replace(case.workshop, listener=self._listen)
        case.run(self.trial.before)
        for step in self._steps(case):
            for each in _ways(point, reached[step]):
                self._kill(case, step, each)
            self.children.prepare()
            case.run(self.trial.unit, steps=[step])
        self.findings += [
            finding
            for finding in self.trial.differences(
                self.check, case, names=("in a clean run", f"when run again after a death at {point}"), why=_why(point)
            )
            if finding.step not in {known.step for known in self.findings}
        ]

    def _kill(self, case: Case, step: str, point: str) -> None:
        ended = self.children.run(case, self.trial.unit, steps=[step], fail_point=f"{point}:kill")
        if ended.killed and not ended.broken and ended.point == point:
            self.died.append((step, point))
        else:
            self.missed.append(f"{step} at {point} ({ended.problem or 'the run did not come to it'})")

    def _steps(self, case: Case) -> Iterator[str]:
        yield from (step.name for step in case.pipeline.ordered())

    def _listen(self, event: Event) -> None:
        if event.state == "recovered":
            self.recovered[event.detail.rpartition(": ")[2]] += 1

    def summary(self) -> str:
        """Say how many died where, from which states the next run went on, and what was not covered."""
        steps = list(dict.fromkeys(step for step, _ in self.died))
        states = list(dict.fromkeys(point for _, point in self.died))
        went_on = ", ".join(f"{count} {what}" for what, count in sorted(self.recovered.items()))
        parts = [
            f"killed {len(self.died)} times in {len(steps)} step{'s' * (len(steps) > 1)}, and run again",
            f"recovered from: {', '.join(states)}",
        ]
        if went_on:
            parts.append(f"what a dead run had left: {went_on}")
        if self.missed:
            parts.append(f"not covered: {'; '.join(self.missed)}")
        return "; ".join(parts)


def _ways(point: str, reached: Sequence[str]) -> list[str]:
    """Return the deaths, one after the other, that show a point in a step; none if the step does not reach it."""
    if point != _RECOVERY:
        return [point] if point in reached else []
    # A run dies while it cleans up after another one that died with rows staged.
    return ["stage.written", _RECOVERY] if "stage.written" in reached else []


def _why(point: str) -> Why:
    return Why(
        what=f"killed at {point} ({FAIL_POINTS[point]}) and run again, it has other rows than a clean run",
        cause="the step keeps something of a run outside of its tables, such as a counter, a file or a cache",
        fix="compute the rows from the inputs and the window alone; what a step must remember belongs in its table",
    )
