"""`crash`: killed at every point of a publish, then run again, a unit has the rows of a clean run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twice import failpoints
from twice.errors import PermanentError
from twice.failpoints import FAIL_POINTS
from twice.verify.children import Children
from twice.verify.reading import CAUSE, FIX, half, neither
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from twice.engine.events import Event
    from twice.verify.cases import Case, Picture
    from twice.verify.trial import Finding, Trial

# The point that only a run after a death reaches.
_RECOVERY = "recover.dropped"


@dataclass
class Crash:
    """Kill a process in each step, at each point of a publish that the step reaches; run again, and compare.

    What is killed is a replacement: the unit holds what half of its input rows make, and is run on all of them. Points
    that a replacement does not reach (of an effect that was sent, or where a run on half of the rows is refused) are
    those of the unit's first run. Which points a step reaches is recorded, not assumed: they differ by store and by
    what is published. A step that keeps something of a run outside of its tables (a counter, a file, a cache) fails.
    After each death the table is read, and must show a whole version: the one before, or the new one. The summary says
    how often a process was killed and from which states the next run continued; a point at which none died is named as
    not covered.
    """

    # Of the points that are reached, only these; none: all.
    points: Sequence[str] = ()
    name = "crash"
    promise = "a unit that is killed at any point and run again has the rows of a clean run"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Make one case per point, and kill each step of it once."""
        with Children(trial) as children:
            children.prepare()
            deaths = _Deaths(self, trial, children)
            starts = _starts(trial)
            for point in (*(each for each in FAIL_POINTS if each != _RECOVERY), _RECOVERY):
                if self.points and point not in self.points:
                    continue
                done: set[str] = set()
                for start in starts:
                    if steps := [step for step in start.steps(point) if step not in done]:
                        deaths.at(point, start, steps)
                        done.update(steps)
        if not deaths.died:
            raise NotRun(f"no process died at a fail point: {'; '.join(deaths.missed) or 'none was reached'}")
        return Seen(deaths.summary(), deaths.findings)


@dataclass
class _Start:
    """What a case holds before the run that is killed, and after a run that is not."""

    replaces: bool
    undisturbed: Case
    old: Picture
    new: Picture
    # By step: the points that it reaches.
    reached: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, trial: Trial, *, replaces: bool) -> _Start:
        """Run the unit undisturbed, step by step."""
        case = _ready(trial, replaces=replaces)
        old, reached = case.picture(), {}
        for step in _steps(case):
            names: list[str] = []
            with failpoints.watched(names.append):
                case.run(trial.unit, steps=[step])
            reached[step] = list(dict.fromkeys(names))
        return cls(replaces, case, old, case.picture(), reached)

    def ready(self, trial: Trial) -> Case:
        """Return a new case with the same tables."""
        return _ready(trial, replaces=self.replaces)

    def steps(self, point: str) -> list[str]:
        """Return the steps that can be killed at a point."""
        return [step for step, reached in self.reached.items() if _ways(point)[0] in reached]


def _ready(trial: Trial, *, replaces: bool) -> Case:
    case = trial.case()
    case.run(trial.before)
    if replaces:
        case.read_from(trial.variants("half", half))
        case.run(trial.unit)
        case.read_from(trial.inputs.folders)
    return case


def _starts(trial: Trial) -> list[_Start]:
    """Return a replacement, if half of the input rows are accepted, and the unit's first run."""
    first = _Start.of(trial, replaces=False)
    try:
        return [_Start.of(trial, replaces=True), first]
    except PermanentError:
        return [first]


@dataclass
class _Deaths:
    """What was killed, and the results."""

    check: Crash
    trial: Trial
    children: Children
    died: list[tuple[str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    recovered: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def at(self, point: str, start: _Start, steps: Sequence[str]) -> None:
        """Kill some steps of a new case at a point, each time run again, then compare with a clean run."""
        case = start.ready(self.trial)
        case.runtime = replace(case.runtime, listener=self._listen)
        torn: list[Finding] = []
        for step in _steps(case):
            for each in _ways(point) if step in steps else ():
                self._kill(case, step, each)
                torn += self._read(case, start, step, each)
            self.children.prepare()
            case.run(self.trial.unit, steps=[step])
        # A step that makes other rows in each run leaves such a version after a death, too.
        for finding in [*self._differences(case, start, point), *torn]:
            if finding.step not in {known.step for known in self.findings}:
                self.findings.append(finding)

    def _differences(self, case: Case, start: _Start, point: str) -> list[Finding]:
        if all(case.digest(name := step.writes.name) == start.new[name] for step in self.trial.compared):
            return []
        names = ("in a clean run", f"when run again after a death at {point}")
        return self.trial.differences(self.check, case, against=start.undisturbed, names=names, why=_why(point))

    def _kill(self, case: Case, step: str, point: str) -> None:
        ended = self.children.run(case, self.trial.unit, steps=[step], fail_point=f"{point}:kill")
        if ended.killed and not ended.broken and ended.point == point:
            self.died.append((step, point))
        else:
            self.missed.append(f"{step} at {point} ({ended.problem or 'the run did not reach it'})")

    def _read(self, case: Case, start: _Start, name: str, point: str) -> list[Finding]:
        """Read a table after a death; report what is neither the old nor the new version."""
        step = next((each for each in self.trial.compared if each.name == name), None)
        if step is None:
            return []
        table = step.writes.name
        seen, versions = case.digest(table), (start.old[table], start.new[table])
        if seen in versions:
            return []
        what = f"after a death at {point} a reader sees neither version: {neither(seen, *versions)}"
        return [self.trial.finding(self.check, step, what, cause=CAUSE, fix=FIX)]

    def _listen(self, event: Event) -> None:
        if event.state == "recovered":
            self.recovered[event.detail.rpartition(": ")[2]] += 1

    def summary(self) -> str:
        """Return how many died where, from which states the next run continued, and what was not covered."""
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


def _ways(point: str) -> list[str]:
    """Return the deaths, one after the other, that show a point."""
    # A run dies while it cleans up after another one that died with rows staged.
    return ["stage.written", _RECOVERY] if point == _RECOVERY else [point]


def _steps(case: Case) -> list[str]:
    return [step.name for step in case.pipeline.ordered()]


def _why(point: str) -> Why:
    return Why(
        what=f"killed at {point} ({FAIL_POINTS[point]}) and run again, it has other rows than a clean run",
        cause="the step keeps something of a run outside of its tables, such as a counter, a file or a cache",
        fix="compute the rows from the inputs and the window alone; what a step must remember belongs in its table",
    )
