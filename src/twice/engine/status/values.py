"""States and reasons of partitions, ready to be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from twice.engine.notebooks import counted, status_html
from twice.model.scopes import Scope

if TYPE_CHECKING:
    from twice.ledger import EffectRecord

State = Literal["done", "failed", "running", "missing", "stale"]
STATES: tuple[State, ...] = ("done", "stale", "missing", "failed", "running")


@dataclass(frozen=True)
class Reason:
    """Why a partition is not done: `subject` is what groups of partitions have in common.

    `partitions` names the partitions of an input that changed; `rows` counts what came to them since, where both
    contents are known.
    """

    kind: Literal["data", "code", "touched", "undone", "error", "late"]
    subject: str
    text: str
    partitions: tuple[str, ...] = ()
    rows: int | None = None

    @classmethod
    def changed(cls, table: str, labels: Sequence[str], rows: int | None, *, late: bool) -> Reason:
        """Return the reason that some partitions of an input hold something else now; a whole read has no labels."""
        what = " ".join([table, *labels[:1]])
        if len(labels) > 1:
            what += f" … {labels[-1]} ({len(labels)})"
        after = " after the partition was closed" if late else ""
        count = f" ({rows:+d} row{'' if abs(rows) == 1 else 's'})" if late and rows else ""
        return cls("late" if late else "data", table, f"{what} changed{after}{count}", tuple(labels), rows)

    def over(self, labels: Sequence[str], rows: int | None) -> Reason:
        """Return the same change of an input over more of its partitions."""
        return self.changed(self.subject, labels, rows, late=self.kind == "late")

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {"kind": self.kind, "subject": self.subject, "text": self.text}
        if self.partitions:
            found["partitions"] = list(self.partitions)
        if self.rows is not None:
            found["rows"] = self.rows
        return found


class PartitionStatus(NamedTuple):
    """One partition of one step's table; there may be hundreds of thousands.

    `open`: whether it still waits for late rows, None where nothing can be late. `ignored` is what arrived too
    late and, by the table's own policy, changes nothing. `accepted` lists the gates that failed for what it holds and
    that its run let through.
    """

    name: str
    scope: Scope
    state: State
    reasons: tuple[Reason, ...] = ()
    rows: int | None = None
    run: str | None = None
    open: bool | None = None
    ignored: tuple[Reason, ...] = ()
    accepted: tuple[Mapping[str, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "partition": self.name,
            "scope": self.scope.to_json(),
            "state": self.state,
            "reasons": [reason.to_json() for reason in self.reasons],
            "rows": self.rows,
            "run": self.run,
            "open": self.open,
            "ignored": [reason.to_json() for reason in self.ignored],
            "accepted_gates": [dict(each) for each in self.accepted],
        }


@dataclass(frozen=True, repr=False)
class StepStatus:
    """One step with the partitions of its table, in order."""

    step: str
    table: str
    partitions: tuple[PartitionStatus, ...]

    def __repr__(self) -> str:
        return f"StepStatus({self.step}: {counted(self.counts) or 'no partitions'})"

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions are in each state."""
        found = Counter(partition.state for partition in self.partitions)
        return {state: found[state] for state in STATES if found[state]}

    @property
    def stale(self) -> dict[str, int]:
        """How many partitions are stale by their data and by their code; one may be both."""
        kinds: Counter[str] = Counter()
        for partition in self.partitions:
            if partition.state == "stale":
                kinds.update({"code" if reason.kind == "code" else "data" for reason in partition.reasons})
        return {kind: kinds[kind] for kind in ("data", "code") if kinds[kind]}

    def only_stale(self) -> StepStatus:
        """Return the same step with its stale partitions only."""
        return StepStatus(self.step, self.table, tuple(each for each in self.partitions if each.state == "stale"))

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step,
            "table": self.table,
            "counts": self.counts,
            "stale": self.stale,
            "partitions": [partition.to_json() for partition in self.partitions],
        }


@dataclass(frozen=True, repr=False)
class PipelineStatus:
    """One pipeline with its steps, upstream first; `effects` are those that a person has to look at."""

    pipeline: str
    steps: tuple[StepStatus, ...]
    effects: tuple[EffectRecord, ...] = ()

    def __repr__(self) -> str:
        return f"PipelineStatus({self.pipeline}: {counted(self.counts) or 'no partitions'})"

    def _repr_html_(self) -> str:
        return status_html(f"{self.pipeline}: {counted(self.counts) or 'no partitions'}", [self])

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions of all steps are in each state."""
        return _added(step.counts for step in self.steps)

    def to_json(self) -> dict[str, object]:
        return {
            "pipeline": self.pipeline,
            "steps": [step.to_json() for step in self.steps],
            "effects": [record.to_json() for record in self.effects],
        }


@dataclass(frozen=True, repr=False)
class Status:
    """What is done, stale, missing, failed or running, pipeline by pipeline, step by step, partition by partition."""

    pipelines: tuple[PipelineStatus, ...]

    def __repr__(self) -> str:
        return (
            f"Status({', '.join(each.pipeline for each in self.pipelines)}: {counted(self.counts) or 'no partitions'})"
        )

    def _repr_html_(self) -> str:
        return status_html(counted(self.counts) or "no partitions", self.pipelines)

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions of all pipelines are in each state."""
        return _added(pipeline.counts for pipeline in self.pipelines)

    @property
    def steps(self) -> tuple[StepStatus, ...]:
        """The steps of all pipelines."""
        return tuple(step for pipeline in self.pipelines for step in pipeline.steps)

    @property
    def effects(self) -> tuple[EffectRecord, ...]:
        """The effects that a person has to look at."""
        return tuple(record for pipeline in self.pipelines for record in pipeline.effects)

    def to_json(self) -> dict[str, object]:
        return {"pipelines": [pipeline.to_json() for pipeline in self.pipelines]}


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return {state: total[state] for state in STATES if total[state]}
