"""Discard: a claim's branch goes with the snapshots that it staged, then the files that only they refer to.

Snapshots that a claim staged are marked in their summaries, so no other snapshot is taken for one. They are expired in
the transaction that removes the branch; files are deleted once that transaction is known to have succeeded. What a
process that is killed in between leaves behind is removed by `twice maintain`, as files without a reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from twice.content.java import items_of
from twice.store.iceberg import jvm
from twice.store.iceberg.branches import ADOPTED, STAGED, Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Iceberg applies it whenever anything is expired.
_MAX_REF_AGE = "history.expire.max-ref-age-ms"
_BETWEEN = "\0"
# So many files of a local disk are deleted sooner one by one than by Iceberg's threads.
_FEW = 16


def drop_branch(session: SparkSession, table: Any, line: Line, token: int, *, files: bool) -> None:
    """Remove a claim's branch, and everything that only it refers to; its files only if `files` is true.

    A REST catalog removes a reference without any condition: a publish of the claim may land at the same moment.
    There the files stay until `twice maintain` removes what no snapshot refers to.
    """
    transaction = table.newTransaction()
    gone = remove_branch(transaction, table, line, token)
    transaction.commitTransaction()
    if files:
        delete_files(session, table, gone)


def remove_branch(transaction: Any, table: Any, line: Line, token: int) -> list[Any]:
    """Let a transaction remove a claim's branch and expire the snapshots that it staged; return these."""
    branch = line.branch_of(token)
    transaction.manageSnapshots().removeBranch(branch).commit()
    staged = _staged_on(table, branch, line.mark(token))
    needed = _needed_by_others(table, branch, staged) if staged else None
    if needed is None or any(each.snapshotId() in needed and each.summary().get(STAGED) for each in staged):
        return []
    gone = [snapshot for snapshot in staged if snapshot.snapshotId() not in needed]
    if gone:
        # Nothing is expired by age: other versions have their own retention.
        expiry = transaction.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(False)
        for snapshot in gone:
            expiry.expireSnapshotId(snapshot.snapshotId())
        expiry.commit()
    return gone


def delete_files(
    session: SparkSession, table: Any, snapshots: Sequence[Any], data: Sequence[str] | None = None
) -> None:
    """Delete the manifests of expired snapshots, and data files that nothing refers to any more.

    These are what the snapshots added, unless `data` names them. An error leaves files without a reference.
    """
    if not snapshots:
        return
    with suppress(Py4JError, CapturedException):
        io, paths = table.io(), []
        for snapshot in snapshots:
            number = snapshot.snapshotId()
            own = [each for each in items_of(snapshot.allManifests(io)) if each.snapshotId() == number]
            paths += [str(snapshot.manifestListLocation()), *(str(manifest.path()) for manifest in own)]
            if data is None and snapshot.summary().get(ADOPTED) is None:  # adopted files are the shadow's
                paths += [str(file.location()) for file in items_of(snapshot.addedDataFiles(io))]
        _delete(session, table, io, [*paths, *(data or ())])


def _delete(session: SparkSession, table: Any, io: Any, paths: Sequence[str]) -> None:
    if len(paths) <= _FEW and jvm.is_local(session, table):
        for path in paths:
            io.deleteFile(path)
        return
    delete = jvm.known(session, "org.apache.iceberg.CatalogUtil", "deleteFiles")
    delete(io, _list(session, paths), "staged", True)


def _staged_on(table: Any, branch: str, mark: str) -> list[Any]:
    """List the snapshots of a branch that a claim staged, newest first.

    The branch of a table without versions begins with an empty snapshot, which belongs to the branch, too.
    """
    found = []
    for snapshot in jvm.history(table, jvm.snapshot_of(table, branch)):
        summary = snapshot.summary()
        if summary.get(STAGED) != mark:
            if snapshot.parentId() is None and summary.get("total-data-files") == "0":
                found.append(snapshot)
            break
        found.append(snapshot)
    return found


def _needed_by_others(table: Any, branch: str, staged: Sequence[Any]) -> set[int] | None:
    """Return which of a branch's snapshots other branches and tags need, with all that they were built on.

    None: expiry would apply a retention of theirs at the same time, so nothing may be expired here.
    """
    if table.properties().get(_MAX_REF_AGE) is not None:
        return None
    numbers = [snapshot.snapshotId() for snapshot in staged]
    oldest, needed = staged[-1].sequenceNumber(), set()
    refs = table.refs()
    for name in items_of(refs.keySet()):
        if str(name) == branch:
            continue
        ref = refs.get(name)
        if ref.maxSnapshotAgeMs() is not None or ref.maxRefAgeMs() is not None:
            return None
        for snapshot in jvm.history(table, table.snapshot(ref.snapshotId())):
            if snapshot.snapshotId() in numbers:
                needed.update(numbers[numbers.index(snapshot.snapshotId()) :])
                break
            if snapshot.sequenceNumber() < oldest:
                break
    return needed


def _list(session: SparkSession, texts: Sequence[str]) -> Any:
    """Pass texts to Java in one call: a round trip for each would cost more than the deletion."""
    words = jvm.known(session, "java.util.StringTokenizer")(_BETWEEN.join(texts), _BETWEEN)
    return jvm.known(session, "java.util.Collections", "list")(words)
