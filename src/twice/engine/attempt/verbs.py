"""One attempt of one step: claim, recover, stage, gate, publish, record.

Read top-down, this is the publish protocol. Each verb leaves behind a state from which the
next attempt can continue; the fail points between them are where the crash tests kill it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from twice.engine.attempt import differences, gating
from twice.engine.attempt.claiming import drop_leftovers
from twice.engine.attempt.holding import hold_lease
from twice.engine.attempt.inputs import pin, records
from twice.engine.attempt.outputs import Finding, outputs_of
from twice.engine.attempt.patterns import strategy_of
from twice.engine.attempt.skipping import nothing_to_do
from twice.engine.attempt.stage_result import StageResult
from twice.engine.attempt.staging import stage
from twice.engine.attempt.unmoved import require_unmoved
from twice.engine.chunks.spot_check import compare_alone
from twice.engine.spark.metrics import priced
from twice.errors import LedgerBusy
from twice.failpoints import fail_point
from twice.ledger import ACCEPTED_GATES

if TYPE_CHECKING:
    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.inputs import Pinned
    from twice.engine.attempt.task import Task
    from twice.ledger import Claim, Output
    from twice.model.scopes import Scope
    from twice.store.protocol import StagedRows


def attempt(task: Task) -> Finding:
    """Bring one scope of one table up to date."""
    task.store.check(task.session, task.step.writes)
    with hold_lease(task) as holding:
        claim = holding.claim
        recover(task, claim)
        task.report("pinning")
        inputs = pin(task)
        task.ledger.leases.bind(task.attempt_id, claim, base_version=None, inputs=records(task, inputs))
        if skipped := nothing_to_do(task, claim, inputs, waited=holding.waited):
            return skipped
        result = stage(task, claim, inputs)
        verdict = gate(task, result)
        compare_alone(task, inputs, result, verdict)
        finding = publish(task, claim, inputs, result, verdict)
        finding = priced(task, finding)
        record(task, claim, finding)
    fail_point("record.written")
    return finding


def recover(task: Task, claim: Claim) -> None:
    """Settle every earlier claim that did not finish: adopt what landed, fence what did not."""
    for abandoned in claim.abandoned:
        landed = task.store.fence(task.session, task.step.writes, abandoned.token)
        fail_point("recover.dropped")
        task.ledger.leases.settle(abandoned, landed=landed is not None, version=landed)
        what = "had published: adopted" if landed else "had published nothing: dropped"
        task.report("recovered", f"an earlier claim ({abandoned.token}) {what}")
    drop_leftovers(task, claim)


def gate(task: Task, result: StageResult) -> Verdict:
    """Judge the staged rows; a verdict that returns is a pass."""
    gating.refuse_strays(task, result.staged)
    verdict = strategy_of(task.step.writes).gate(task, result)
    fail_point("gate.passed")
    task.report("gated", data={"rows": verdict.rows})
    return verdict


def publish(
    task: Task,
    claim: Claim,
    inputs: list[Pinned],
    result: StageResult,
    verdict: Verdict,
) -> Finding:
    """Make the partitions that differ visible in one commit; if none differs, nothing is committed."""

    def described(files: Mapping[Scope, str], version: str | None) -> list[Output]:
        return outputs_of(task, inputs, verdict, files, version)

    return commit(task, claim, result, verdict, described, lambda: require_unmoved(task, inputs))


def commit(
    task: Task,
    claim: Claim,
    result: StageResult,
    verdict: Verdict,
    described: Callable[[Mapping[Scope, str], str | None], list[Output]],
    look_again: Callable[[], None] = lambda: None,
) -> Finding:
    """Make judged rows visible; `described` returns what is recorded of it, `look_again` may still refuse it."""
    changed = differences.changed_partitions(task, result, verdict)
    files = differences.files_after(task, result, changed)
    remember, details = differences.marks(task), result.details(verdict, changed)
    if changed:
        look_again()
        remember |= differences.tombstones(task)
    # Saved before the commit, so that a later run that finds the commit without its record can complete it.
    expected = described(files, None) if changed else []
    status, version = commit_staged(task, claim, result.staged, changed, remember, expected, _accepted(verdict))
    return _found(task, status, described(files, version), verdict, details)


def commit_staged(
    task: Task,
    claim: Claim,
    staged: StagedRows,
    changed: Sequence[Scope],
    remember: Mapping[str, str],
    expected: Sequence[Output] = (),
    details: Mapping[str, object] | None = None,
    more: Mapping[str, str] | None = None,
) -> tuple[str, str | None]:
    """Publish the changed partitions, or drop staged rows that change nothing; return how, and the version.

    `more` goes with the version, beside the run and the step.
    """
    if not changed:
        task.store.discard(task.session, staged, remember)
        return "unchanged", staged.base
    task.ledger.outputs.prepare(claim, task.attempt_id, expected, details=details)
    notes = {"twice.run": task.run, "twice.step": f"{task.pipeline.name}.{task.step.name}", **(more or {})}
    version = task.store.publish(task.session, staged, changed, notes, remember)
    fail_point("publish.committed")
    return "published", version


def _accepted(verdict: Verdict) -> dict[str, object]:
    return {ACCEPTED_GATES: verdict.accepted} if verdict.accepted else {}


def _found(task: Task, status: str, outputs: list[Output], verdict: Verdict, details: dict[str, object]) -> Finding:
    details |= _accepted(verdict)
    refused = {partition: error.message for partition, error in verdict.refused.items()}
    if refused:
        details["refused"] = {task.target.name(partition): reason for partition, reason in refused.items()}
    return Finding(status, outputs, verdict.rows, outputs[0].version, details, refused)


def record(task: Task, claim: Claim, finding: Finding) -> None:
    """Record what the table holds now, and release the claim, in one ledger transaction."""
    try:
        task.ledger.outputs.record(
            claim, task.attempt_id, finding.outputs, status=finding.status, details=finding.details
        )
    except LedgerBusy:
        # The record may exist, and only the answer was lost: a second call finds out, and does no harm.
        task.ledger.outputs.record(
            claim, task.attempt_id, finding.outputs, status=finding.status, details=finding.details
        )
    if finding.refused:
        # A kill before this leaves them without a record: then they stay missing or stale.
        step, table = task.step.name, task.step.writes.name
        task.ledger.attempts.add_failures(task.run, step, table, task.number, finding.refused, code=task.code)
