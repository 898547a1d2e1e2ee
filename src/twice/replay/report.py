"""What a replay found: for each step of a run *same*, *differs* with the rows, or *cannot* with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from twice.content.difference import Difference
    from twice.ledger import AttemptInfo, RunInfo

Status = Literal["same", "differs", "cannot"]


@dataclass(frozen=True)
class StepReplay:
    """One step of a run, recorded against rebuilt.

    `rows` are those of the partitions that the run recorded. `partitions` holds what differs, as far as the published
    rows can still be read; `samples` are some of the rows, each as it was published (-) and as it was rebuilt (+).
    """

    step: str
    table: str
    scope: str
    status: Status
    why: str
    next_step: str = ""
    recorded_rows: int | None = None
    rebuilt_rows: int | None = None
    partitions: Mapping[str, Difference] = field(default_factory=dict)
    samples: Sequence[str] = ()
    remarks: Sequence[str] = ()

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__) | {
            "partitions": {name: found.to_json() for name, found in self.partitions.items()},
            "samples": list(self.samples),
            "remarks": list(self.remarks),
        }


def cannot(attempt: AttemptInfo, why: str, next_step: str = "") -> StepReplay:
    """Return why a step of a run cannot be rebuilt."""
    return StepReplay(
        attempt.step, attempt.table, str(attempt.scope), "cannot", why, next_step, recorded_rows=attempt.rows
    )


@dataclass(frozen=True)
class Report:
    """A replayed run."""

    run: RunInfo
    steps: Sequence[StepReplay]
    remarks: Sequence[str] = ()

    @property
    def is_same(self) -> bool:
        """Whether every step was rebuilt, and is what was recorded."""
        return all(step.status == "same" for step in self.steps)

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON scalars."""
        return {
            "run": self.run.id,
            "pipeline": self.run.pipeline,
            "scope": self.run.scope.to_json(),
            "environment": dict(self.run.environment),
            "same": self.is_same,
            "remarks": list(self.remarks),
            "steps": [step.to_json() for step in self.steps],
        }
