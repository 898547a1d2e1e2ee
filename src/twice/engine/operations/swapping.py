"""Swap: what a shadow holds of a range becomes what readers see, in one commit per table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

from twice.content.digest import Digest
from twice.engine.attempt import gating
from twice.engine.attempt.differences import NEWEST
from twice.engine.attempt.gating import Verdict, profiled
from twice.engine.attempt.holding import hold_lease
from twice.engine.attempt.recorded_attempt import recorded_attempt
from twice.engine.attempt.stage_result import StageResult
from twice.engine.attempt.verbs import commit, record, recover
from twice.engine.plan import PlannedStep
from twice.engine.run import task_of
from twice.engine.spark.metrics import priced
from twice.errors import StoreRefused
from twice.failpoints import fail_point
from twice.model.patterns import Whole
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from twice.engine.attempt.holding import HeldLease
    from twice.engine.attempt.outputs import Finding
    from twice.engine.attempt.task import Task
    from twice.engine.run import Runtime
    from twice.ledger import Output
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Table
    from twice.store.protocol import Shadowing


@dataclass(frozen=True)
class Swap:
    """One table whose shadow takes its place; `live_names` maps each shadow to the table that it stands for."""

    pipeline: Pipeline
    step: Step
    shadow: Table
    scope: Scope
    live_names: Mapping[str, str]
    mark: str

    @property
    def planned(self) -> PlannedStep:
        """What is replaced: the range, and for a table that is written as a whole its newest unit."""
        scope = self.scope
        if isinstance(self.step.writes.write, Whole) and scope.window is not None:
            last = list(self.pipeline.grain.partitions(scope.window, self.pipeline.zone))[-1]
            scope = replace(scope, window=last)
        return PlannedStep(self.step, scope, Target.of(self.step.writes, scope, self.pipeline.zone))


def swap(
    runtime: Runtime,
    wanted: Swap,
    run: str,
    look_again: Callable[[], None] = lambda: None,
    at_last: Callable[[], None] = lambda: None,
) -> Finding:
    """Publish a shadow by the protocol's own verbs; done twice, the second time changes nothing.

    `look_again` is called once no other run can publish, and may refuse the swap; `at_last` right before the commit.
    """
    task = task_of(runtime, wanted.pipeline, wanted.planned, run)
    table = task.step.writes
    task.store.check(task.session, table)
    # Not the code of the step: how a swap ends says nothing about the partitions, and status leaves it out.
    code = f"swap:{wanted.mark}"
    with recorded_attempt(task, code) as recorded:
        finding = _swap(recorded, wanted, look_again, at_last)
    fail_point("swap.table")
    return finding


def superseded(runtime: Runtime, wanted: Swap) -> bool:
    """Return whether a table written as a whole was newer than the range when its turn came: nothing was made."""
    table, window = wanted.step.writes, wanted.planned.scope.window
    if not isinstance(table.write, Whole) or window is None:
        return False
    newest = runtime.stores.of(table).remembered(runtime.spark, wanted.shadow, NEWEST)
    return newest is not None and datetime.fromisoformat(newest) > window.start


def built(runtime: Runtime, wanted: Swap) -> dict[Scope, Output]:
    """Return what the ledger holds of every partition of a shadow; one that was never built is refused."""
    target = wanted.planned.target
    known = {output.scope: output for output in runtime.ledger.outputs.list(wanted.shadow.name, target.scope.window)}
    missing = [target.name(partition) for partition in target.partitions if partition not in known]
    if missing:
        raise StoreRefused(
            f"the shadow of {wanted.step.writes.name} was not built for {missing[0]}"
            + (f" and {len(missing) - 1} more partitions" if len(missing) > 1 else ""),
            unchanged="nothing was swapped",
            next_step="twice backfill resume completes it; twice backfill list shows its id",
        )
    return {partition: known[partition] for partition in target.partitions}


def _swap(task: Task, wanted: Swap, look_again: Callable[[], None], at_last: Callable[[], None]) -> Finding:
    with hold_lease(task) as holding:
        recover(task, holding.claim)
        look_again()
        finding = priced(task, _publish(task, wanted, holding, at_last))
        record(task, holding.claim, finding)
    return finding


def _publish(task: Task, wanted: Swap, holding: HeldLease, at_last: Callable[[], None]) -> Finding:
    claim = holding.claim
    known = {output.scope: output for output in task.ledger.outputs.list(wanted.shadow.name, task.target.scope.window)}
    shadowing = cast("Shadowing", task.store)
    schema = shadowing.shadow_schema(task.session, replace(task.target, table=wanted.shadow))
    task.store.prepare(task.session, task.step.writes, schema)
    staged = task.store.open(task.session, task.target, claim.token)
    task.ledger.leases.bind(task.attempt_id, claim, base_version=staged.base, inputs=())
    shadowing.adopt(task.session, staged, wanted.shadow)
    gating.refuse_strays(task, staged)
    verdict = Verdict({partition: Digest.parse(known[partition].digest) for partition in task.target.partitions})
    if not _is_as_built(task, wanted.shadow, known):
        _require_as_built(task, StageResult(staged), verdict)

    def described(files: Mapping[Scope, str], version: str | None) -> list[Output]:
        return [_recorded(task, wanted, known[partition], files[partition], version) for partition in verdict.digests]

    return commit(task, claim, StageResult(staged), verdict, described, at_last)


def _is_as_built(task: Task, shadow: Table, known: Mapping[Scope, Output]) -> bool:
    """Return, from files alone, whether exactly the files that were judged are published."""
    if not shadow.id.shadow:  # rows were copied, not files moved
        return False
    target = replace(task.target, table=shadow)
    files = task.store.files(task.session, target, task.store.version(task.session, shadow))
    return all(known[partition].files == fingerprint for partition, fingerprint in files.items())


def _require_as_built(task: Task, result: StageResult, verdict: Verdict) -> None:
    """Refuse a shadow whose rows are no longer those that passed the gates."""
    found = profiled(task, task.store.staged(task.session, result.staged), key=())
    for partition, digest in verdict.digests.items():
        now = found[partition].digest
        if now != digest and (now.rows or digest.rows):
            raise StoreRefused(
                f"the shadow of {task.step.writes.name}, {task.target.name(partition)} is not as it was built: "
                f"it had {digest.rows} rows, and now holds {now.rows}, or different ones",
                unchanged="nothing was swapped for this table",
                next_step="drop the shadow and build it again",
            )


def _recorded(task: Task, wanted: Swap, made: Output, files: str, version: str | None) -> Output:
    """Describe a partition as a run on the tables themselves would have."""
    inputs = tuple(replace(each, table=wanted.live_names.get(each.table, each.table)) for each in made.inputs)
    return replace(
        made,
        table=task.step.writes.name,
        files=files,
        version=version,
        pipeline=task.pipeline.name,
        step=task.step.name,
        inputs=inputs,
        run=None,
    )
