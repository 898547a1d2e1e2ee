"""The staged rows of an attempt, and what was found out while they were written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twice.content.profile import PartitionProfile
    from twice.engine.attempt.gating import Verdict
    from twice.model.scopes import Scope
    from twice.store.protocol import StagedRows


@dataclass
class StageResult:
    """Staged rows, and what was found out on the way: whether anything is in them, and counts.

    `unique`: the plan that made the rows proves that no key occurs twice in a partition.
    """

    staged: StagedRows
    changed: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    source: Verdict | None = None
    unique: bool = False
    # What was seen of the rows while they were written, if they are of one partition.
    seen: PartitionProfile | None = None

    def details(self, verdict: Verdict, changed: Sequence[Scope]) -> dict[str, object]:
        """Return what is worth keeping about the attempt."""
        return {"published_partitions": len(changed), **self.counts, "remarks": verdict.remarks}
