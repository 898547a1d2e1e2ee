"""Whether a step's partitions may share a job, how many of them, and why, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.backfills.sizing import fitting
from twice.engine.chunks.separability import Separability
from twice.errors import TwiceError
from twice.model.patterns import InsertOnly, Merge, Whole

if TYPE_CHECKING:
    from twice.backfills.request import Request
    from twice.engine.plan import PlannedStep
    from twice.model.steps import Step


@dataclass(frozen=True)
class Batching:
    """How a step is cut: `size` partitions per job, None for all neighbours in one."""

    ok: bool
    why: str
    size: int | None = 1
    # One after the other, oldest first.
    in_order: bool = False
    # Compare one partition, computed alone, before anything is published.
    check: bool = False
    # The engine skips partitions that are fresh when their turn comes.
    skip_fresh: bool = False

    @classmethod
    def of(
        cls,
        step: Step,
        request: Request,
        probe: PlannedStep | None,
        judge: Callable[[PlannedStep], Separability],
        rows_each: Callable[[], float | None],
        *,
        early: bool = False,
    ) -> Batching:
        """Decide for one step; `probe` is the widest chunk that could be one job, None if there are no neighbours."""
        if (fixed := _fixed(step)) is not None:
            return fixed
        if request.chunk == 1:
            return cls(False, "one partition per job was requested (--chunk 1)")
        if probe is None:
            return cls(False, "no two neighbouring partitions need work")
        found = _judged(step, probe, judge, early=early)
        if not found.ok:
            return cls(False, f"one partition per job: {found.reason}")
        size = request.chunk if request.chunk is not None else fitting(rows_each())
        return cls(True, f"separable: {found.reason}", size=size, check=True)

    def to_json(self) -> dict[str, object]:
        return dict(self.__dict__)


def _fixed(step: Step) -> Batching | None:
    """Return how a step is cut if its write pattern leaves no choice."""
    if step.depends_on_past:
        why = "builds on its own past: forward, one partition at a time"
        return Batching(False, why, in_order=True, skip_fresh=True)
    if isinstance(step.writes.write, Whole):
        return Batching(False, "replaces the whole table: only the newest window counts", in_order=True)
    if not isinstance(step.writes.write, Merge | InsertOnly):
        return None
    if step.separable is False:
        return Batching(False, "declared not separable: one window after the other", in_order=True)
    why = f"merged once, over the union of windows; twice rebuild {step.writes.name} rebuilds its history"
    return Batching(True, why, size=None, in_order=True)


def _judged(
    step: Step, probe: PlannedStep, judge: Callable[[PlannedStep], Separability], *, early: bool
) -> Separability:
    if step.kind == "extract" and step.separable is None:
        return Separability(False, "an extract fetches one window at a time")
    try:
        return judge(probe)
    except TwiceError as error:
        # An input that an earlier step writes may not exist yet.
        why = f"judged when its turn comes ({error.message})" if early else f"not proven ({error.message})"
        return Separability(False, why)
