"""The request of a backfill: checked once, kept in the ledger, read back by `resume`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from twice.engine.attempt.determinism import inspect_code
from twice.errors import ScopeHeld, UsageError
from twice.model.patterns import InsertOnly, Merge
from twice.model.pipelines import Pipeline
from twice.model.scopes import Scope
from twice.model.steps import Step
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.config import Config
    from twice.ledger import Ledger

ONLY = ("missing", "failed", "stale")


@dataclass(frozen=True)
class Request:
    """One backfill, as it was requested."""

    place: str
    window: Window
    steps: tuple[str, ...] = ()
    dimensions: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ONLY
    order: str = "forward"
    parallel: int = 2
    # How many partitions a job computes; None: chosen from rows and durations.
    chunk: int | None = None
    pool: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    refetch: bool = False
    # Rebuild closed partitions of tables with on_late="fail", too.
    accept_late: bool = False
    # Build everything out of sight of readers, to be swapped in or dropped.
    shadow: bool = False
    # Send the effects of what is published, too; else they are recorded as suppressed.
    effects: bool = False

    def __post_init__(self) -> None:
        if self.parallel < 1:
            raise UsageError(f"--parallel must be 1 or more, got {self.parallel}")
        if self.chunk is not None and self.chunk < 1:
            raise UsageError(f"--chunk must be auto, or 1 or more, got {self.chunk}")
        if self.order not in {"forward", "backward"}:
            raise UsageError(f"--order {self.order}: choose forward or backward")
        if unknown := sorted(set(self.only) - {*ONLY, "all"}):
            raise UsageError(f"--only {unknown[0]}: choose from {', '.join(ONLY)}, all")
        if self.shadow and self.only not in (ONLY, ("all",)):
            raise UsageError(
                f"--only {self.only[0]} cannot be combined with --shadow: a shadow is built as a whole, so that it "
                "can be swapped in at once"
            )
        if self.shadow and self.effects:
            raise UsageError("--effects cannot be combined with --shadow: what no reader sees is not sent")
        if "backfill" in self.tags:
            raise UsageError("--tag backfill=…: this tag is reserved for the backfill's id")

    @property
    def wanted(self) -> frozenset[str]:
        """The states of partitions that are to be built."""
        return frozenset(self.only) if "all" not in self.only else frozenset({*ONLY, "done"})

    @property
    def scope(self) -> Scope:
        """The whole range."""
        return Scope.of(self.window, self.dimensions)

    def to_json(self) -> dict[str, object]:
        return {
            "place": self.place,
            "window": self.window.to_json(),
            "steps": list(self.steps),
            "dimensions": dict(self.dimensions),
            "only": list(self.only),
            "order": self.order,
            "parallel": self.parallel,
            "chunk": self.chunk,
            "pool": self.pool,
            "tags": dict(self.tags),
            "refetch": self.refetch,
            "accept_late": self.accept_late,
            "shadow": self.shadow,
            "effects": self.effects,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Request:
        """Read what `to_json` wrote."""
        return cls(
            place=value["place"],
            window=Window.from_json(value["window"]),
            steps=tuple(value["steps"]),
            dimensions=dict(value["dimensions"]),
            only=tuple(value["only"]),
            order=value["order"],
            parallel=value["parallel"],
            chunk=value["chunk"],
            pool=value["pool"],
            tags=dict(value["tags"]),
            refetch=value["refetch"],
            accept_late=value["accept_late"],
            shadow=value["shadow"],
            effects=value.get("effects", False),
        )

    @property
    def again(self) -> Request:
        """Return the request for what failed meanwhile, whatever its state was before."""
        tries_again = {"all", "failed"} & set(self.only)
        return self if tries_again else replace(self, only=(*self.only, "failed"))

    def command(self, pipeline: Pipeline, window: Window, more: Sequence[str] = ()) -> str:
        """Return the command that does the same for another window."""
        grain, zone = pipeline.grain, pipeline.zone
        parts = ["twice", *more, "backfill", "start", self.place]
        parts += ["--from", grain.label(window.start, zone), "--to", grain.label(window.end, zone)]
        for step in self.steps:
            parts += ["--step", step]
        for option, values in (("--set", self.dimensions), ("--tag", self.tags)):
            for name, value in values.items():
                parts += [option, f"{name}={value}"]
        if self.only != ONLY:
            for state in self.only:
                parts += ["--only", state]
        if self.order != Request.order:
            parts += ["--order", self.order]
        flags = (
            ("--refetch", self.refetch),
            ("--accept-late", self.accept_late),
            ("--shadow", self.shadow),
            ("--effects", self.effects),
        )
        parts += [option for option, on in flags if on]
        if self.pool:
            parts += ["--pool", self.pool]
        if self.parallel != Request.parallel:
            parts += ["--parallel", str(self.parallel)]
        if self.chunk is not None:
            parts += ["--chunk", str(self.chunk)]
        return shlex.join(parts)


def range_of(pipeline: Pipeline, from_: str | None, to: str | None) -> Window:
    """Read the range of a backfill; its end is not part of it."""
    if from_ is None or to is None:
        raise UsageError(
            "which range? Give --from and --to (exclusive); there is no default",
            unchanged="nothing was run",
            next_step=f"twice backfill {pipeline.name} --from 2026-01-01 --to 2026-04-01 --dry-run",
        )
    grain, zone = pipeline.grain, pipeline.zone
    first, end = grain.parse(from_, zone), grain.parse(to, zone)
    if end <= first:
        what = "is empty" if end == first else "ends before it begins"
        raise UsageError(
            f"the range from {from_} to {to} {what}: --to itself is not part of it", unchanged="nothing was run"
        )
    return Window(first, end)


def known_pool(config: Config, pool: str | None) -> str | None:
    """Return the name of a pool that the configuration has."""
    if pool is not None and pool not in config.pools:
        known = ", ".join(config.pools) or "none"
        raise UsageError(
            f"there is no pool {pool!r}; there are: {known}",
            unchanged="nothing was run",
            next_step=f"add [pools.{pool}] with weight = 1 to {config.source or 'twice.toml'}",
        )
    return pool


def check(pipeline: Pipeline, request: Request, ledger: Ledger | None = None) -> None:
    """Refuse what could not run before Spark is started; the ledger decides once more when a backfill starts.

    With a ledger, a range that another backfill works on is refused too.
    """
    list(pipeline.grain.partitions(request.window, pipeline.zone))  # raises for a range off the grain
    tables = {step.writes.name for step in chosen(pipeline, request)}
    if ledger is None or request.shadow:  # a shadow blocks no other run until it is swapped in
        return
    for info in ledger.backfills.list():
        if info.workers and tables & set(info.tables) and info.scope.overlaps(request.scope):
            raise ScopeHeld(
                f"the range overlaps with backfill {info.id} ({info.scope}), which is {info.status} on "
                f"{info.workers[0]}",
                unchanged="nothing was started",
                next_step=f"twice backfill watch {info.id}; or end it with twice backfill cancel {info.id}",
            )


def chosen(pipeline: Pipeline, request: Request) -> list[Step]:
    """Return the steps of a backfill, upstream first; what could not run is refused here."""
    if not pipeline.steps:
        raise UsageError(f"pipeline {pipeline.name} has no steps")
    names = {pipeline.find(name).name for name in request.steps} if request.steps else set(pipeline.steps)
    steps = [step for step in pipeline.ordered() if step.name in names]
    for step in steps:
        inspect_code(step)
    for name in request.dimensions:
        if name not in pipeline.dimensions:
            known = ", ".join(sorted(pipeline.dimensions)) or "none"
            raise UsageError(f"pipeline {pipeline.name} has no dimension {name!r}; its dimensions are: {known}")
        for step in steps:
            if name not in step.writes.dimensions and not isinstance(step.writes.write, Merge | InsertOnly):
                raise UsageError(
                    f"step {step.name} writes {step.writes.name}, which has no dimension {name}: a backfill for one "
                    f"{name} would replace the rows of all of them",
                    next_step=f'add "{name}" to dimensions= of the table, or choose other steps with --step',
                )
    return steps


def around(pipeline: Pipeline, steps: Sequence[str], *, downstream: bool, upstream: bool) -> tuple[str, ...]:
    """Widen a choice of steps to those that read from them, or that they read from; an empty choice stays empty."""
    if (downstream or upstream) and not steps:
        raise UsageError("--downstream and --upstream widen a choice: give --step too")
    if not steps:
        return ()
    found = {pipeline.find(name).name for name in steps}
    ordered = pipeline.ordered()
    if downstream:
        for step in ordered:
            if any(producer.name in found for producer in producers(pipeline, step)):
                found.add(step.name)
    if upstream:
        for step in reversed(ordered):
            if step.name in found:
                found |= {producer.name for producer in producers(pipeline, step)}
    return tuple(step.name for step in ordered if step.name in found)


def producers(pipeline: Pipeline, step: Step) -> list[Step]:
    """Return the steps of the same pipeline whose tables a step reads."""
    made = (pipeline.producer(read.table) for read in step.reads.values())
    return [found for found in made if found is not None and found is not step]
