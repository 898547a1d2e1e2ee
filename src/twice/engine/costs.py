"""What runs cost, added up by whose they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from twice.ledger import Spent

MEASURES = ("executor_seconds", "cpu_seconds", "bytes_read", "bytes_written", "bytes_shuffled")


@dataclass
class Cost:
    """One line of the bill; `unmeasured` attempts used no Spark, or ended before they could say what they used."""

    name: str
    runs: set[str] = field(default_factory=set)
    attempts: int = 0
    unmeasured: int = 0
    total: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))

    def add(self, spent: Spent) -> None:
        """Put one attempt on the bill."""
        self.runs.add(spent.run)
        self.attempts += 1
        self.unmeasured += not spent.cost
        for measure in MEASURES:
            self.total[measure] += spent.cost.get(measure, 0.0)

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "runs": len(self.runs),
            "attempts": self.attempts,
            "unmeasured": self.unmeasured,
            **{measure: round(value, 3) for measure, value in self.total.items()},
        }


def bill(spent: Iterable[Spent], by: str) -> list[Cost]:
    """Add up attempts by pipeline, by step, or by a tag of their run; the dearest come first."""
    found: dict[str, Cost] = {}
    for each in spent:
        name = _whose(each, by)
        found.setdefault(name, Cost(name)).add(each)
    return sorted(found.values(), key=lambda cost: (-cost.total["executor_seconds"], cost.name))


def _whose(spent: Spent, by: str) -> str:
    if by == "pipeline":
        return _pipeline(spent)
    if by == "step":
        return f"{_pipeline(spent)}.{spent.step}"
    return spent.tags.get(by, f"(no {by})")


def _pipeline(spent: Spent) -> str:
    """Return the pipeline's own name: work on its shadows goes by `name@backfill`."""
    return spent.pipeline.partition("@")[0]
