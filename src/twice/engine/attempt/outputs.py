"""What an attempt read and produced, as the ledger records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twice.content.digest import Digest
from twice.engine.attempt.inputs import Pinned, records
from twice.ledger import Output

if TYPE_CHECKING:
    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.task import Task
    from twice.model.scopes import Scope


@dataclass(frozen=True)
class Finding:
    """How an attempt ended: published, unchanged, fresh or superseded."""

    status: str
    outputs: Sequence[Output]
    rows: int
    version: str | None
    details: Mapping[str, object] = field(default_factory=dict)
    refused: Mapping[Scope, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One digest over all partitions."""
        parts = [Digest.parse(output.digest) for output in self.outputs]
        return sum(parts[1:], parts[0]).text if parts else ""


def outputs_of(
    task: Task, inputs: list[Pinned], verdict: Verdict, files: Mapping[Scope, str], version: str | None
) -> list[Output]:
    """Describe every partition of the target as it is after the attempt."""
    kept = {unit: records(task, inputs, unit) for unit in {task.unit_of(partition) for partition in verdict.digests}}
    return [
        Output(
            table=task.step.writes.name,
            scope=partition,
            rows=digest.rows,
            digest=digest.text,
            files=files[partition],
            version=version,
            pipeline=task.pipeline.name,
            step=task.step.name,
            code=task.code,
            inputs=kept[task.unit_of(partition)],
        )
        for partition, digest in verdict.digests.items()
    ]
