"""Accept a code change that changes no row: partitions stay as they are and count as made by the current code.

No table is touched. The acceptance is a run of its own in the ledger, so that history shows who accepted it and when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING

from twice.engine.attempt.fingerprint import fingerprint, keep_parts
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.status import PartitionStatus, StepStatus, status
from twice.errors import PermanentError
from twice.model.scopes import Scope
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.ledger import Claim, Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step

# Nothing is computed under the claim: a process that holds it for longer than this is gone.
_LEASE = timedelta(minutes=5)


@dataclass(frozen=True)
class Accepted:
    """One step: what is accepted, what is not because its data changed, too, and which parts of the code differ."""

    step: str
    table: str
    accepted: tuple[PartitionStatus, ...]
    refused: tuple[PartitionStatus, ...]

    @property
    def changed(self) -> tuple[str, ...]:
        """What changed in the code, in words, as far as it is known."""
        reasons = (reason for partition in self.accepted for reason in partition.reasons if reason.kind == "code")
        return tuple(dict.fromkeys(reason.subject for reason in reasons if reason.subject))

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step,
            "table": self.table,
            "changed": list(self.changed),
            "accepted": [partition.name for partition in self.accepted],
            "refused": [
                {"partition": partition.name, "reasons": [reason.to_json() for reason in partition.reasons]}
                for partition in self.refused
            ],
        }


def accept(
    ledger: Ledger,
    pipeline: Pipeline,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    steps: Sequence[str] = (),
    command: str = "",
    dry_run: bool = False,
) -> tuple[str | None, list[Accepted]]:
    """Accept the current code for every partition that is stale by code alone; return the run, if there was one."""
    chosen = {pipeline.find(name).name for name in steps} or set(pipeline.steps)
    found = [_sorted(step) for step in status(ledger, pipeline, start, end) if step.step in chosen]
    found = [step for step in found if step.accepted or step.refused]
    todo = [step for step in found if step.accepted]
    if dry_run or not todo:
        return None, found
    scope = _hull([p for step in todo for p in step.accepted])
    with recorded_run(ledger, pipeline.name, scope, command=command) as run:
        for step in todo:
            _accept(ledger, pipeline.find(step.step), step.accepted, run)
    return run, found


def _sorted(step: StepStatus) -> Accepted:
    """Separate what is stale by code alone from what is stale for other reasons, too."""
    stale = [
        partition
        for partition in step.partitions
        if partition.state == "stale" and any(reason.kind == "code" for reason in partition.reasons)
    ]
    alone = [partition for partition in stale if all(reason.kind == "code" for reason in partition.reasons)]
    both = [partition for partition in stale if any(reason.kind != "code" for reason in partition.reasons)]
    return Accepted(step.step, step.table, tuple(alone), tuple(both))


def _accept(ledger: Ledger, step: Step, partitions: Sequence[PartitionStatus], run: str) -> None:
    """Record the same contents again, with the current code, under a claim as any other record."""
    table, code, hull = step.writes.name, fingerprint(step), _hull(partitions)
    keep_parts(ledger, step, code)
    with _claimed(ledger, table, hull, run) as claim:
        attempt_id = ledger.attempts.start(run, step.name, table, 1, hull, code=code)
        wanted = {partition.scope for partition in partitions}
        held = ledger.outputs.list(table, hull.window)
        outputs = [replace(output, code=code) for output in held if output.scope in wanted]
        # A record replaces all that it covers: what a single tenant's run made since goes with it as it is.
        beside = [output for output in held if output.scope not in wanted and _covered(output.scope, wanted)]
        try:
            ledger.outputs.record(
                claim, attempt_id, [*outputs, *beside], status="accepted", details={"accepted": len(outputs)}
            )
        except BaseException as error:
            # Not `failed`: the partitions are as good or stale as they were.
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "held"
            ledger.attempts.finish(attempt_id, status, error=str(error))
            raise


@contextmanager
def _claimed(ledger: Ledger, table: str, scope: Scope, run: str) -> Iterator[Claim]:
    claim = ledger.leases.claim(table, [scope], ttl=_LEASE, run=run)
    try:
        _require_settled(claim, scope)
        yield claim
    except BaseException:
        if ledger.leases.holds(claim):
            ledger.leases.release(claim)
        raise


def _require_settled(claim: Claim, scope: Scope) -> None:
    """Refuse where a killed run may have published: only the table shows it, and no table is read here."""
    if claim.abandoned:
        raise PermanentError(
            f"{claim.table}: run {claim.abandoned[0].run} was killed, and what it left has not been settled",
            unchanged="nothing was accepted",
            next_step=f"run {scope} again first, which settles it",
        )


def _covered(scope: Scope, others: set[Scope]) -> bool:
    """Return whether one of the other scopes owns all of a scope: the same window, and some of its dimensions."""
    mine = scope.dimensions
    return any(Scope(scope.window, some) in others for count in range(len(mine)) for some in combinations(mine, count))


def _hull(partitions: Sequence[PartitionStatus]) -> Scope:
    windows = [partition.scope.window for partition in partitions if partition.scope.window]
    if not windows:
        return Scope(None)
    return Scope(Window(min(window.start for window in windows), max(window.end for window in windows)))
