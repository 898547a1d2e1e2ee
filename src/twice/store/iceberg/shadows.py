"""Shadows of Iceberg tables: a branch that starts from main and is swapped in by moving files, not rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from twice.content.filters import scope_filter
from twice.content.java import items_of
from twice.content.rows import column
from twice.errors import StoreRefused
from twice.store import claim_errors, data_files
from twice.store.iceberg import jvm, listing, staging
from twice.store.iceberg.branches import ADOPTED, CREATED, SHADOW, STAGED, Line, added_by_others, shadows_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.store.iceberg.staging import IcebergStagedRows


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


def adopt(session: SparkSession, staged: IcebergStagedRows, shadow: Table) -> None:
    """Put the shadow's files of the scope on the claim's branch, where they differ from main's."""
    line, branch = Line.of(shadow.id), staged.line.branch_of(staged.token)

    def attempt() -> None:
        live = jvm.load(session, shadow.id)
        if live is None or branch not in live.refs():
            raise claim_errors.taken_over(staged.target, staged.token)
        ours = _by_partition(session, live, staged, line.head(live))
        theirs = _by_partition(session, live, staged, jvm.snapshot_of(live, branch))
        differing = [place for place in staged.target.partitions if _names(ours[place]) != _names(theirs[place])]
        if not differing:
            return
        expression = jvm.partitions_expression(session, staged.target, differing)
        overwrite = live.newOverwrite().toBranch(branch).overwriteByRowFilter(expression)
        for place in differing:
            if any(file.deletes for file in ours[place]):
                raise StoreRefused(
                    f"{shadow.name}, {staged.target.name(place)} has delete files, which cannot be moved",
                    unchanged="nothing was published",
                    next_step="rewrite its data files first",
                )
        listing.add(overwrite, [file for place in differing for file in ours[place]])
        overwrite.set(STAGED, staged.mark).set(ADOPTED, line.shadow)  # its files stay the shadow's
        overwrite.commit()

    jvm.retried(attempt)
    staging.look(session, staged)


def schema(session: SparkSession, target: Target) -> T.StructType:
    """Return the columns that a shadow brings; refused if one that holds something was dropped since.

    A column that is added again under its old name is a new one to Iceberg: the files would hold no values for it.
    """
    shadow = target.table
    line, live = Line.of(shadow.id), jvm.load(session, shadow.id)
    head = line.head(live) if live is not None else None
    if live is None or head is None:
        return session.table(shadow.id.sql).schema
    rows = session.read.option("versionAsOf", str(head.snapshotId())).table(shadow.id.sql)
    gone = _gone(live, head)
    if gone:
        inside = rows.where(scope_filter(target))
        lost = [name for name in sorted(gone) if not inside.where(column(name).isNotNull()).isEmpty()]
        if lost:
            raise StoreRefused(
                f"{shadow.name} was built with the column {lost[0]}, which was dropped from the table since",
                unchanged="nothing was swapped for this table",
                next_step="drop the shadow and build it again",
            )
    others = (added_by_others(live, line) - line.added(live)) | gone
    return T.StructType([field for field in rows.schema.fields if field.name not in others])


def drop(session: SparkSession, table: Table, shadow: Table) -> bool:
    """Remove the branch with its claims, then its snapshots and every file that no other version needs.

    True: a table or columns that were added for it are still there.
    """
    line = Line.of(shadow.id)

    def attempt() -> None:
        live = jvm.load(session, table.id)
        if live is None:
            return
        transaction = live.newTransaction()
        refs = {str(name) for name in items_of(live.refs().keySet())}
        ours = [name for name in (line.name, *map(line.branch_of, line.branch_tokens(live))) if name in refs]
        for name in ours:
            transaction.manageSnapshots().removeBranch(name).commit()
        if ours:
            transaction.commitTransaction()

    jvm.retried(attempt)
    jvm.retried(lambda: _expire(session, table, line))
    return jvm.retried(lambda: _forget(session, table, line))


def undo(session: SparkSession, table: Table, shadow: Table) -> None:
    """Remove a table that was made for the shadow and stayed empty, or else the columns that it added.

    The caller holds the table: no other run starts to write it meanwhile.
    """
    jvm.retried(lambda: _undo(session, table, Line.of(shadow.id)))


def _by_partition(
    session: SparkSession, live: Any, staged: IcebergStagedRows, head: Any | None
) -> dict[Scope, list[listing.FileInfo]]:
    if head is None:
        return data_files.by_partition(staged.target, [])
    expression = jvm.scope_expression(session, staged.target)
    return data_files.by_partition(staged.target, jvm.files_in(session, live, head.snapshotId(), expression))


def _names(files: Iterable[listing.FileInfo]) -> set[str]:
    return {file.identity for file in files}


def _expire(session: SparkSession, table: Table, line: Line) -> None:
    """Expire the snapshots that were made for the shadow, as far as no branch needs them."""
    live = jvm.load(session, table.id)
    if live is None:
        return
    kept = {
        snapshot.snapshotId()
        for name in items_of(live.refs().keySet())
        for snapshot in jvm.history(live, jvm.snapshot_of(live, str(name)))
    }
    snapshots = items_of(live.snapshots())
    made = [snapshot.snapshotId() for snapshot in snapshots if snapshot.summary().get(SHADOW) == line.shadow]
    if gone := [number for number in made if number not in kept]:
        # Nothing is expired by age: other versions have their own retention.
        expiry = live.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(True)
        for number in gone:
            expiry.expireSnapshotId(number)
        expiry.commit()


def _gone(live: Any, head: Any) -> set[str]:
    """Name the columns of a version that the table no longer has, or has under another id."""
    before = live.schemas().get(head.schemaId())
    now = {int(each.fieldId()): str(each.name()) for each in items_of(live.schema().columns())}
    columns = items_of(before.columns()) if before is not None else ()
    return {str(each.name()) for each in columns if now.get(int(each.fieldId())) != str(each.name())}


def _forget(session: SparkSession, table: Table, line: Line) -> bool:
    """Remove what the table remembers of the shadow, unless there is more to undo: True then."""
    live = jvm.load(session, table.id)
    if live is None:
        return False
    if _unneeded(live, line) or _only_its(live, line):
        return True
    if _keys(live, line):
        update = live.updateProperties()
        _set_properties(update, live, line)
        update.commit()
    return False


def _undo(session: SparkSession, table: Table, line: Line) -> None:
    live = jvm.load(session, table.id)
    if live is None:
        return
    if _only_its(live, line):
        session.sql(f"DROP TABLE {table.id.sql} PURGE")
        return
    transaction = live.newTransaction()
    update = transaction.updateSchema()
    for name in _unneeded(live, line):
        update.deleteColumn(name)
    update.commit()
    properties = transaction.updateProperties()
    _set_properties(properties, live, line)
    properties.commit()
    transaction.commitTransaction()


def _only_its(live: Any, line: Line) -> bool:
    """Return whether a table was made for the shadow, stayed empty, and has no other use."""
    made = live.properties().get(line.key(CREATED)) is not None
    return made and live.currentSnapshot() is None and live.refs().isEmpty()


def _unneeded(live: Any, line: Line) -> list[str]:
    """Name the columns that were added for this shadow and have no other use."""
    if live.currentSnapshot() is None:
        return []
    there = {str(column.name()) for column in items_of(live.schema().columns())}
    return sorted((line.added(live) & there) - added_by_others(live, line))


def _keys(live: Any, line: Line) -> list[str]:
    return [str(name) for name in items_of(live.properties().keySet()) if str(name).endswith(f"@{line.shadow}")]


def _set_properties(update: Any, live: Any, line: Line) -> None:
    """Forget a shadow; the last one of a table that stays empty is the one that it was made for."""
    for name in _keys(live, line):
        update.remove(name)
    if live.properties().get(line.key(CREATED)) is not None and live.currentSnapshot() is None:
        for other in shadows_in(live) - {line}:
            update.set(other.key(CREATED), "true")
