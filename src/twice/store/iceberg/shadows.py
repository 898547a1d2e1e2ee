"""Shadows of Iceberg tables: a branch that starts from main and is swapped in by moving files, not rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from twice.errors import LeaseLost, StoreRefused
from twice.store.iceberg import jvm, staging
from twice.store.iceberg.lines import CREATED, SHADOW, Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.store.iceberg.staging import IcebergStage


def fork(session: SparkSession, table: Table, shadow: Table) -> None:
    """Branch off main; the branch of an empty or absent table begins with its first publish."""
    line = Line.of(shadow.id)

    def attempt() -> None:
        live = jvm.load(session, table.id)
        current = live.currentSnapshot() if live is not None else None
        if live is None or current is None or line.name in live.refs():
            return
        branch = live.manageSnapshots().createBranch(line.name, current.snapshotId())
        branch.setMinSnapshotsToKeep(line.name, staging.KEEP_ALL).commit()

    jvm.retried(attempt)


def adopt(session: SparkSession, stage: IcebergStage, shadow: Table) -> None:
    """Put the shadow's files of the scope on the stage's branch, where they differ from main's."""
    line, branch = Line.of(shadow.id), stage.line.branch_of(stage.token)

    def attempt() -> None:
        live = jvm.load(session, shadow.id)
        if live is None or branch not in live.refs():
            raise LeaseLost(
                f"{stage.target.table.name}, {stage.target.scope}: the claim {stage.token} was taken over",
                safe="nothing was published by this run",
            )
        ours = _by_partition(session, live, stage, line.head(live))
        theirs = _by_partition(session, live, stage, jvm.snapshot_of(live, branch))
        differing = [place for place in stage.target.partitions if _names(ours[place]) != _names(theirs[place])]
        if not differing:
            return
        expression = jvm.partitions_expression(session, stage.target, differing)
        overwrite = live.newOverwrite().toBranch(branch).overwriteByRowFilter(expression)
        for place in differing:
            for file in ours[place]:
                if file.deletes:
                    raise StoreRefused(
                        f"{shadow.name}, {stage.target.name(place)} has delete files, which cannot be moved",
                        safe="nothing was published",
                        to_go_on="rewrite its data files first",
                    )
                overwrite.addFile(file.java)
        overwrite.commit()

    jvm.retried(attempt)
    staging.look(session, stage)


def drop(session: SparkSession, table: Table, shadow: Table) -> None:
    """Remove the branch with its claims, then its snapshots and every file that no other version needs."""
    line = Line.of(shadow.id)

    def attempt() -> None:
        live = jvm.load(session, table.id)
        if live is None:
            return
        transaction = live.newTransaction()
        refs = {str(name) for name in live.refs().keySet()}
        ours = [name for name in (line.name, *map(line.branch_of, line.branch_tokens(live))) if name in refs]
        for name in ours:
            transaction.manageSnapshots().removeBranch(name).commit()
        if ours:
            transaction.commitTransaction()

    jvm.retried(attempt)
    jvm.retried(lambda: _expire(session, table, line))
    jvm.retried(lambda: _undo_metadata(session, table, line))


def _by_partition(
    session: SparkSession, live: Any, stage: IcebergStage, head: Any | None
) -> dict[Scope, list[jvm.FileInfo]]:
    found: dict[Scope, list[jvm.FileInfo]] = {partition: [] for partition in stage.target.partitions}
    if head is not None:
        expression = jvm.scope_expression(session, stage.target)
        for file in jvm.files_in(session, live, head.snapshotId(), expression):
            if (place := stage.place(file)) is not None:
                found[place].append(file)
    return found


def _names(files: Iterable[jvm.FileInfo]) -> set[str]:
    return {file.identity for file in files}


def _expire(session: SparkSession, table: Table, line: Line) -> None:
    """Expire the snapshots that were made for the shadow, as far as no branch needs them."""
    live = jvm.load(session, table.id)
    if live is None:
        return
    kept = {
        snapshot.snapshotId()
        for name in live.refs().keySet()
        for snapshot in jvm.history(live, jvm.snapshot_of(live, str(name)))
    }
    made = [snapshot.snapshotId() for snapshot in live.snapshots() if snapshot.summary().get(SHADOW) == line.shadow]
    if gone := [number for number in made if number not in kept]:
        # By age nothing goes: other versions have their own time.
        expiry = live.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(True)
        for number in gone:
            expiry.expireSnapshotId(number)
        expiry.commit()


def _undo_metadata(session: SparkSession, table: Table, line: Line) -> None:
    """Remove a table that was made for the shadow and stayed empty, or else the columns and properties it added.

    The caller holds the table: nobody begins to write it meanwhile.
    """
    live = jvm.load(session, table.id)
    if live is None:
        return
    made = live.properties().get(line.key(CREATED)) is not None
    if made and live.currentSnapshot() is None and not set(map(str, live.refs().keySet())):
        session.sql(f"DROP TABLE {table.id.sql} PURGE")
        return
    properties = [str(name) for name in live.properties().keySet() if str(name).endswith(f"@{line.shadow}")]
    there = {str(column.name()) for column in live.schema().columns()}
    columns = sorted(line.added(live) & there) if live.currentSnapshot() is not None else []
    if not properties:
        return
    transaction = live.newTransaction()
    if columns:
        update = transaction.updateSchema()
        for name in columns:
            update.deleteColumn(name)
        update.commit()
    update = transaction.updateProperties()
    for name in properties:
        update.remove(name)
    update.commit()
    transaction.commitTransaction()
