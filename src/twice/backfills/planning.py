"""The plan of a backfill: for each step what needs work, cut into the chunks that are run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twice.backfills.batching import Batching
from twice.backfills.estimates import executor_seconds, usual_rows
from twice.backfills.needs import Unit, units_of
from twice.backfills.request import Request, chosen, producers
from twice.backfills.sizing import cut
from twice.backfills.spans import neighbours, touches, union
from twice.engine.chunks.separability import Separability
from twice.engine.plan import PlannedStep
from twice.engine.status import status
from twice.model.patterns import Whole
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.engine.status import Files, Sources, StepStatus
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step

Judge = Callable[[PlannedStep], Separability]
Estimate = Callable[[PlannedStep], float | None]


@dataclass(frozen=True)
class StepPlan:
    """One step of a backfill: what exists, what is to be built, and in which jobs."""

    step: Step
    units: tuple[Unit, ...]
    needed: tuple[Unit, ...]
    chunks: tuple[PlannedStep, ...]
    batching: Batching
    # Units whose input was not built, with the reason.
    blocked: tuple[tuple[Unit, str], ...] = ()
    # Landed raw data that is not fetched again.
    reused: int = 0
    # Fresh units that may need work once the earlier steps have run.
    perhaps: int = 0
    # Executor seconds, from earlier runs.
    seconds: float | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions of the range are in each state."""
        found: Counter[str] = Counter()
        for unit in self.units:
            found[unit.state] += unit.partitions
        return dict(found)

    @property
    def partitions(self) -> int:
        """How many partitions are to be built."""
        return sum(unit.partitions for unit in self.needed)

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step.name,
            "table": self.step.writes.name,
            "counts": self.counts,
            "partitions": self.partitions,
            "perhaps": self.perhaps,
            "blocked": sum(unit.partitions for unit, _ in self.blocked),
            "reused": self.reused,
            "batched": self.batching.ok,
            "why": self.batching.why,
            "executor_seconds": self.seconds,
            "chunks": [chunk.to_json() for chunk in self.chunks],
        }


@dataclass(frozen=True)
class Plan:
    """Everything that a backfill would do, as far as it can be known before it begins."""

    pipeline: Pipeline
    request: Request
    steps: tuple[StepPlan, ...]

    @property
    def nothing_to_do(self) -> bool:
        """Whether every partition is already as requested."""
        return not any(step.needed or step.blocked for step in self.steps)

    def to_json(self) -> dict[str, object]:
        return {
            "pipeline": self.pipeline.name,
            "request": self.request.to_json(),
            "nothing_to_do": self.nothing_to_do,
            "steps": [step.to_json() for step in self.steps],
        }


@dataclass
class Planner:
    """Plans one backfill; `judge` and `estimate` ask Spark, `live` and `sources` the tables, if given."""

    ledger: Ledger | None
    pipeline: Pipeline
    request: Request
    judge: Judge
    estimate: Estimate = lambda _planned: None
    live: Files | None = None
    sources: Sources | None = None
    windows: tuple[Window, ...] = field(init=False)

    def __post_init__(self) -> None:
        window, zone = self.request.window, self.pipeline.zone
        self.windows = tuple(self.pipeline.grain.partitions(window, zone))
        self.steps = chosen(self.pipeline, self.request)

    def plan(self) -> Plan:
        """Plan every step as things stand now."""
        found = self._status()
        steps: list[StepPlan] = []
        moving: dict[str, list[Window]] = {}
        for step in self.steps:
            planned = self._step(step, found, {}, (), early=bool(steps))
            made = {unit.window for unit in planned.needed}
            perhaps = [
                unit
                for unit in planned.units
                if "stale" in self.request.wanted
                if unit.window not in made and unit.state == "done" and _reads_from(self.pipeline, step, unit, moving)
            ]
            moving[step.name] = union([*made, *(unit.window for unit in perhaps)])
            steps.append(
                StepPlan(**{**planned.__dict__, "perhaps": 0 if planned.reused else sum(u.partitions for u in perhaps)})
            )
        return Plan(self.pipeline, self.request, tuple(steps))

    def turn(self, step: Step, unmade: Mapping[str, Sequence[Window]], kept: Sequence[Window] = ()) -> StepPlan:
        """Plan one step when its turn comes; `unmade` is what the earlier steps could not build.

        The `kept` windows were built by this backfill, and are not rebuilt.
        """
        return self._step(step, self._status(), unmade, kept, early=False)

    def expected(self, steps: Sequence[Step]) -> dict[str, int]:
        """Count what some steps have to build as things stand now, without cutting it into chunks."""
        found = self._status()
        wanted = {step.name: self._wanted(step, self._units(step, found))[0] for step in steps}
        return {name: sum(unit.partitions for unit in units) for name, units in wanted.items()}

    def _status(self) -> dict[str, StepStatus]:
        window = self.request.window
        found = status(self.ledger, self.pipeline, window.start, window.end, live=self.live, sources=self.sources)
        return {each.step: each for each in found}

    def _step(
        self,
        step: Step,
        found: Mapping[str, StepStatus],
        unmade: Mapping[str, Sequence[Window]],
        kept: Sequence[Window],
        *,
        early: bool,
    ) -> StepPlan:
        units = self._units(step, found)
        wanted, reused = self._wanted(step, units)
        wanted = [unit for unit in wanted if not touches(kept, unit.window)]
        blocked = [(unit, why) for unit in wanted if (why := self._late(unit) or self._unmade(step, unit, unmade))]
        if step.depends_on_past and blocked:
            first = blocked[0][0].window.start
            later = [unit for unit in wanted if unit.window.start > first]
            blocked = [blocked[0], *((unit, "an earlier partition was not built") for unit in later)]
        held = {unit.window for unit, _ in blocked}
        needed = [unit for unit in wanted if unit.window not in held]
        batching = self._batching(step, needed, found, early=early)
        chunks = [self.planned(step, piece) for piece in self._pieces(step, needed, batching)]
        if self.request.order == "backward" and not batching.in_order:
            chunks.reverse()
        return StepPlan(
            step,
            tuple(units),
            tuple(needed),
            tuple(chunks),
            batching,
            tuple(blocked),
            reused,
            seconds=executor_seconds(self.ledger, self.pipeline, step, sum(unit.partitions for unit in needed)),
        )

    def _units(self, step: Step, found: Mapping[str, StepStatus]) -> list[Unit]:
        run = self.request.scope
        return units_of(self.ledger, self.pipeline, step, found[step.name], self.windows, run, self.sources)

    def _wanted(self, step: Step, units: Sequence[Unit]) -> tuple[list[Unit], int]:
        """Choose what was requested; count the landed raw data that is not fetched again."""
        wanted, reused = [], 0
        for unit in units:
            if self._is_reused(step, unit):
                reused += unit.partitions
            # A partition that another run seems to work on may have been left by a process that died.
            elif unit.state in self.request.wanted or (unit.state == "running" and "failed" in self.request.wanted):
                wanted.append(unit)
        if step.depends_on_past and wanted:
            # What is built on a partition that changes is judged again, one by one.
            wanted = [unit for unit in units if unit.window.start >= wanted[0].window.start]
        return wanted, reused

    def _is_reused(self, step: Step, unit: Unit) -> bool:
        """Landed raw data is fetched again only on request, also where the extract's code changed."""
        if step.kind != "extract" or self.request.refetch:
            return False
        return unit.state == "done" or unit.code_only

    def _late(self, unit: Unit) -> str:
        return "" if self.request.accept_late else unit.late

    def _unmade(self, step: Step, unit: Unit, unmade: Mapping[str, Sequence[Window]]) -> str:
        """Return why a unit cannot be built: an earlier step did not build what it reads."""
        for producer in producers(self.pipeline, step):
            if producer.name in unmade and _reads(self.pipeline, step, producer, unit, unmade[producer.name]):
                return f"step {producer.name} did not build its input"
        return ""

    def _batching(
        self, step: Step, needed: Sequence[Unit], found: Mapping[str, StepStatus], *, early: bool
    ) -> Batching:
        widest = max(neighbours([unit.window for unit in needed]), key=len, default=[])
        probe = self.planned(step, widest) if len(widest) > 1 else None

        def rows_each() -> float | None:
            known = usual_rows(self.pipeline, step, found)
            if known is None and probe is not None:
                weight = self.estimate(probe)
                known = weight / len(probe.target.partitions) if weight is not None else None
            return known

        return Batching.of(step, self.request, probe, self.judge, rows_each, early=early)

    def _pieces(self, step: Step, needed: Sequence[Unit], batching: Batching) -> list[list[Window]]:
        groups = neighbours([unit.window for unit in needed])
        if isinstance(step.writes.write, Whole):
            return [groups[-1][-1:]] if groups else []
        if batching.size is None:
            return groups
        each = max(1, needed[0].partitions) if needed else 1
        size = max(1, batching.size // each)
        parallel = self.request.parallel if self.request.chunk is None else 1
        return [piece for group in groups for piece in cut(group, size, parallel)]

    def planned(self, step: Step, windows: Sequence[Window]) -> PlannedStep:
        """Return one step for neighbouring windows."""
        scope = Scope.of(Window(windows[0].start, windows[-1].end), self.request.dimensions)
        return PlannedStep(step, scope, Target.of(step.writes, scope, self.pipeline.zone))


def _reads_from(pipeline: Pipeline, step: Step, unit: Unit, moving: Mapping[str, Sequence[Window]]) -> bool:
    made: Iterable[Step] = producers(pipeline, step)
    return any(_reads(pipeline, step, p, unit, moving[p.name]) for p in made if moving.get(p.name))


def _reads(pipeline: Pipeline, step: Step, producer: Step, unit: Unit, windows: Sequence[Window]) -> bool:
    """Return whether a unit is made from some windows of another step's table."""
    for read in step.reads.values():
        if read.table.id == producer.writes.id:
            cut_of = read.cut(unit.window, step.writes.lateness, pipeline.zone)
            if touches(windows, cut_of.partitions or unit.window):
                return True
    return False
