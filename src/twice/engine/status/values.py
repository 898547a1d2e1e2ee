"""States and reasons of partitions, ready to be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from twice.model.scopes import Scope

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


@dataclass(frozen=True)
class StepStatus:
    """One step with the partitions of its table, in order."""

    step: str
    table: str
    partitions: tuple[PartitionStatus, ...]

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

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step,
            "table": self.table,
            "counts": self.counts,
            "stale": self.stale,
            "partitions": [partition.to_json() for partition in self.partitions],
        }
