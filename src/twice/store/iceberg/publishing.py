"""Publish: one Iceberg transaction that moves staged files to main and drops the branch.

The branch is the fence. The run that takes a claim over drops the branch; this transaction contains
the removal of the same branch, so of the two commits only one can succeed. An error while
committing is unknown, not failed: the token is looked up in the table before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from twice.failpoints import fail_point
from twice.store import claim_errors
from twice.store.commit_loop import attempts
from twice.store.data_files import fingerprint
from twice.store.iceberg import discarding, jvm, listing
from twice.store.iceberg.branches import SHADOW, TOKEN, UNPUBLISHED
from twice.store.staged import Publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.store.iceberg.staging import IcebergStagedRows


def publish(session: SparkSession, publication: Publication[IcebergStagedRows]) -> str:
    """Make the staged partitions visible; return the id of the new snapshot."""
    staged = publication.staged
    for last in attempts():
        table = jvm.load(session, staged.target.table.id)
        if table is None or staged.line.branch_of(staged.token) not in table.refs():
            return _landed_or_lost(table, staged)
        _require_unchanged(session, table, staged)
        seen = _head(table, staged)
        try:
            snapshots, unpublished = _commit(session, table, publication)
        except (Py4JError, CapturedException) as error:
            now = _look_up(session, staged)
            if now is not None and (landed := staged.line.find_token(now, staged.token)) is not None:
                return landed
            # Iceberg reports another writer's commit in different ways: what counts is that main moved.
            raced = jvm.is_commit_race(error) or (_is_refusal(error) and _head(now, staged) != seen)
            if not raced or last:
                raise
            continue
        version = _landed_or_lost(table, staged)
        discarding.delete_files(session, table, snapshots, unpublished)
        return version
    raise AssertionError("unreachable")


def drop(session: SparkSession, staged: IcebergStagedRows, remember: Mapping[str, str]) -> None:
    """Drop staged rows that change nothing: the scope must be as it was, the branch ours; no snapshot is added."""
    tried = False

    def attempt() -> None:
        nonlocal tried
        table = jvm.load(session, staged.target.table.id)
        if table is None or staged.line.branch_of(staged.token) not in table.refs():
            if tried:  # our own removal, whose answer was lost; the ledger knows if it was not
                return
            raise claim_errors.taken_over(staged.target, staged.token)
        _require_unchanged(session, table, staged)
        transaction = table.newTransaction()
        new = not staged.line.shadow and table.properties().get(UNPUBLISHED) is not None
        if new or any(staged.line.remembered(table, name) != value for name, value in remember.items()):
            properties = transaction.updateProperties()
            for name, value in remember.items():
                properties.set(staged.line.key(name), value)
            if new:
                properties.remove(UNPUBLISHED)
            properties.commit()
        snapshots = discarding.remove_branch(transaction, table, staged.line, staged.token)
        tried = True
        transaction.commitTransaction()
        discarding.delete_files(session, table, snapshots)

    jvm.retried(attempt)


def _commit(
    session: SparkSession, table: Any, publication: Publication[IcebergStagedRows]
) -> tuple[list[Any], list[str]]:
    """Commit in one transaction; return the staged snapshots that it expired, and staged files that stay out."""
    staged, wanted = publication.staged, set(publication.partitions)
    head = jvm.snapshot_of(table, staged.line.branch_of(staged.token))
    added, removed = staged.changed_files(session, table)
    expression = jvm.partitions_expression(session, staged.target, publication.partitions)
    transaction = table.newTransaction()
    overwrite = transaction.newOverwrite().toBranch(staged.line.name).conflictDetectionFilter(expression)
    overwrite.validateNoConflictingData().validateNoConflictingDeletes()
    if jvm.is_local(session, table):
        overwrite.scanManifestsWith(jvm.calling_thread(session))
    if (current := staged.line.head(table)) is not None:
        overwrite.validateFromSnapshot(current.snapshotId())
    unpublished = []
    if staged.replaces:
        overwrite.overwriteByRowFilter(expression)
        unpublished = [file.location for file in added if staged.target.place(file.partition) not in wanted]
        added = [file for file in added if staged.target.place(file.partition) in wanted]
        if added:
            overwrite.validateAddedFilesMatchOverwriteFilter()
    else:
        listing.delete(overwrite, removed)
    listing.add(overwrite, added)
    # An older engine's snapshot expiry would otherwise take the branch's files for reverted ones.
    overwrite.set("source-snapshot-id", str(head.snapshotId() if head is not None else ""))
    overwrite.set(TOKEN, staged.line.mark(staged.token))
    if staged.line.shadow:
        overwrite.set(SHADOW, staged.line.shadow)
    for name, value in publication.notes.items():
        overwrite.set(name, value)
    overwrite.commit()
    properties = transaction.updateProperties()
    known = int(table.properties().get(staged.line.key(TOKEN)) or 0)
    properties.set(staged.line.key(TOKEN), str(max(known, staged.token)))
    for name, value in publication.remember.items():
        properties.set(staged.line.key(name), value)
    if not staged.line.shadow and table.properties().get(UNPUBLISHED) is not None:
        properties.remove(UNPUBLISHED)
    properties.commit()
    snapshots = discarding.remove_branch(transaction, table, staged.line, staged.token)
    fail_point("publish.ready")
    transaction.commitTransaction()
    return snapshots, unpublished


def _landed_or_lost(table: Any, staged: IcebergStagedRows) -> str:
    landed = staged.line.find_token(table, staged.token) if table is not None else None
    if landed is None:
        raise claim_errors.taken_over(staged.target, staged.token)
    return landed


def _head(table: Any | None, staged: IcebergStagedRows) -> int | None:
    current = staged.line.head(table) if table is not None else None
    return int(current.snapshotId()) if current is not None else None


def _is_refusal(error: BaseException) -> bool:
    return jvm.java_class(error).endswith("ValidationException")


def _look_up(session: SparkSession, staged: IcebergStagedRows) -> Any | None:
    """Load the table after an error, to see whether the commit landed; failing to load it is a transient error."""
    try:
        return jvm.load(session, staged.target.table.id)
    except (Py4JError, CapturedException) as error:
        raise claim_errors.unanswered(staged, "the catalog") from error


def _require_unchanged(session: SparkSession, table: Any, staged: IcebergStagedRows) -> None:
    """Refuse if another writer changed the scope since staging was opened; compaction does not count."""
    current = staged.line.head(table)
    if current is None or str(current.snapshotId()) == staged.base:
        if current is not None or staged.base is None:
            return
        raise claim_errors.changed(staged.target, "rolled back to nothing")
    base = int(staged.base) if staged.base is not None else None
    if base is not None and table.snapshot(base) is None:
        raise claim_errors.changed(staged.target, "changed")
    expression = jvm.scope_expression(session, staged.target)
    now, before = (
        fingerprint(jvm.files_in(session, table, each, expression) if each is not None else [])
        for each in (current.snapshotId(), base)
    )
    if now == before:
        return
    newer = list(jvm.history(table, current, base))
    reached = base is None or (bool(newer) and newer[-1].parentId() == base)
    if not staged.replaces or not reached:
        raise claim_errors.changed(staged.target, "changed")
    for snapshot in newer:
        if snapshot.operation() != "replace" and _touches(session, table, staged, snapshot):
            what = f"changed by snapshot {snapshot.snapshotId()} ({snapshot.operation()})"
            raise claim_errors.changed(staged.target, what)


def _touches(session: SparkSession, table: Any, staged: IcebergStagedRows, snapshot: Any) -> bool:
    io = table.io()
    changes = (
        snapshot.addedDataFiles(io),
        snapshot.removedDataFiles(io),
        snapshot.addedDeleteFiles(io),
        snapshot.removedDeleteFiles(io),
    )
    return any(
        staged.target.place(file.partition) is not None
        for files in changes
        for file in listing.describe(session, table, files)
    )
