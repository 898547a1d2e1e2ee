"""Merge and InsertOnly: rows are matched by their key, and only those that change the table are staged.

The source is materialised once, cut to one row per key, and compared with the table as it was at the claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content import changes
from twice.content.filters import scope_filter
from twice.content.rows import column
from twice.engine.attempt import gating
from twice.engine.attempt.differences import content_before
from twice.engine.attempt.gating import Verdict
from twice.engine.attempt.samples import LIMIT, rows_text
from twice.engine.attempt.stage_result import StageResult
from twice.engine.chunks.task_per_partition import staged_rows
from twice.errors import KeyViolation, MergeRefused
from twice.model.patterns import InsertOnly, Merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from twice.engine.attempt.task import Task
    from twice.model.tables import Table
    from twice.store.protocol import StagedRows


def stage(task: Task, staged: StagedRows, results: Iterator[DataFrame]) -> StageResult:
    """Write what changes the table: new keys, and newer versions of known ones."""
    source = reduce(lambda one, other: one.unionByName(other), results)
    # Read several times below: a lost block must fail the attempt, not be computed again.
    source = source.localCheckpoint()
    verdict = judge_source(task, source)
    table = task.step.writes
    target = task.store.read(task.session, table, staged.base).where(scope_filter(task.target))
    _require_unique_target(task, staged, target)
    written, counts = compare_by_key(task, source, target)
    changed = any(counts.get(kind) for kind in changes.WRITTEN)
    if changed:
        task.store.stage_changes(task.session, staged, written, insert_only=not isinstance(table.write, Merge))
    return StageResult(staged, changed, counts, verdict)


def gate(task: Task, result: StageResult) -> Verdict:
    """Return the content of a merged scope after the publish, and check its keys."""
    assert result.source is not None  # noqa: S101 - what was staged by key was judged before
    verdict = _content_after(task, result)
    verdict.remarks += result.source.remarks
    verdict.accepted += result.source.accepted
    return verdict


def _content_after(task: Task, result: StageResult) -> Verdict:
    if not result.changed and (before := content_before(task, result)) is not None:
        return Verdict(before)
    if result.changed:
        with staged_rows(task, result.staged) as rows:
            return _merged(task, rows)
    base = task.store.read(task.session, task.step.writes, result.staged.base)
    return _merged(task, base.where(scope_filter(task.target)))


def _merged(task: Task, rows: DataFrame) -> Verdict:
    found = gating.profiled(task, rows, key=task.step.writes.key)
    gating.refuse_bad_keys(task, rows, found, where="the merged table")
    verdict = Verdict({partition: seen.digest for partition, seen in found.items()})
    gating.judge_growth(task, verdict)
    return verdict


def compare_by_key(task: Task, source: DataFrame, target: DataFrame) -> tuple[DataFrame, Mapping[str, int]]:
    """Cut rows to those that change the target, by the table's key; return them, and how many are of each kind."""
    table = task.step.writes
    matched = matched_columns(table)
    merge = table.write if isinstance(table.write, Merge) else None
    if merge and (reused := changes.reused_in_source(source, matched, merge, LIMIT)):
        raise _reused(task, merge, reused)
    one_each = _one_row_per_key(task, source, matched)
    compared = changes.compare(one_each, target, matched=matched, merge=merge, window=task.mark).localCheckpoint()
    counts = changes.kinds(compared)
    if merge and counts.get("reused"):
        raise _reused(task, merge, _keys(changes.of_kind(compared, "reused"), table.key))
    if counts.get("disputed") and not _keeps(table.write):
        raise _disputed(task, compared, counts["disputed"])
    return changes.of_kind(compared, *changes.WRITTEN), counts


def matched_columns(table: Table) -> list[str]:
    """Return the columns that a row is matched by: its key and its partition."""
    return [*table.key, *(name for name in table.partition_columns if name not in table.key)]


def refuse_null_keys(task: Task, rows: DataFrame, key: Sequence[str], *, seen: bool = False) -> None:
    """Refuse rows with a null in a key; `seen`: there was one, whether or not a second read finds it."""
    nulls = rows.where(_any_null(key)).limit(LIMIT).collect()
    if nulls or seen:
        shown = rows_text(task.step.writes, [row.asDict(recursive=True) for row in nulls])
        shown = shown or " a second read found none, so the step returns different rows each time"
        raise KeyViolation(
            f"{task.step.writes.name}: step {task.step.name} returns rows with a null in the business key "
            f"({', '.join(key)}):{shown}",
            unchanged="nothing was published; the last good version stays readable",
            next_step="filter or repair these rows in the step",
        )


def judge_source(task: Task, source: DataFrame) -> Verdict:
    """Apply gates to the step's own rows; several rows for one key are settled by version later."""
    require_mergeable(task, source)
    return gating.judge(task, source, check_keys=False)


def require_mergeable(task: Task, source: DataFrame) -> None:
    """Refuse rows without a key or, where it decides, without a version."""
    table = task.step.writes
    refuse_null_keys(task, source, table.key)
    if isinstance(table.write, Merge):
        absent = source.where(column(table.write.version).isNull()).limit(LIMIT).collect()
        if absent:
            shown = rows_text(table, [row.asDict(recursive=True) for row in absent])
            raise MergeRefused(
                f"{table.name}: step {task.step.name} returns rows without a version ({table.write.version}):{shown}",
                unchanged="nothing was published",
                next_step="give every row a version, such as the time of its last change",
            )


def _any_null(names: Sequence[str]) -> Column:
    found = F.lit(False)
    for name in names:
        found = found | column(name).isNull()
    return found


def _one_row_per_key(task: Task, source: DataFrame, matched: list[str]) -> DataFrame:
    table = task.step.writes
    if isinstance(table.write, Merge):
        reduced = changes.newest(source, matched, table.write.version).localCheckpoint()
        why = f"equal {table.write.version} and different content"
    else:
        reduced = changes.distinct_rows(source, matched).localCheckpoint()
        why = "different content"
    if disputed := changes.disputed_in_source(reduced, matched, LIMIT):
        keys = [{name: row[name] for name in matched} for row in disputed]
        raise MergeRefused(
            f"{table.name}: step {task.step.name} returns several rows for one key with {why}; "
            f"none of them is newer:{rows_text(table, keys)}",
            unchanged="nothing was published",
            next_step="decide in the step which one is right, or choose a version that decides",
        )
    return reduced


def _require_unique_target(task: Task, staged: StagedRows, target: DataFrame) -> None:
    """Refuse a table that already holds a key twice, unless exactly these files were checked before."""
    files = task.store.files(task.session, task.target, staged.base)
    known = {
        output.scope: output.files for output in task.ledger.outputs.held(task.step.writes.name, task.target.scope)
    }
    if all(not fingerprint or known.get(partition) == fingerprint for partition, fingerprint in files.items()):
        return
    found = gating.profiled(task, target, key=task.step.writes.key)
    gating.refuse_bad_keys(task, target, found, where="the target table")


def _keys(rows: DataFrame, key: Sequence[str]) -> list[dict[str, object]]:
    return [row.asDict(recursive=True) for row in rows.select(*map(column, key)).limit(LIMIT).collect()]


def _reused(task: Task, merge: Merge, keys: list[dict[str, object]]) -> MergeRefused:
    table = task.step.writes
    return MergeRefused(
        f"{table.name}: step {task.step.name} returns rows whose {merge.created} is later than the deletion of their "
        f"key: another entity under a reused key, which would replace the first one:{rows_text(table, keys)}",
        unchanged="nothing was published",
        next_step=f"make {merge.created} part of the key, so that each has a row of its own",
    )


def _disputed(task: Task, compared: DataFrame, count: int) -> MergeRefused:
    table = task.step.writes
    keys = rows_text(table, _keys(changes.of_kind(compared, "disputed"), table.key))
    if isinstance(table.write, Merge):
        return MergeRefused(
            f"{table.name}: {count} key{'s' if count != 1 else ''} have the same {table.write.version} as the table "
            f"but different content, and another window wrote them:{keys}",
            unchanged="nothing was published",
            next_step="raise the version of rows that really changed, or rerun the window that wrote them first",
        )
    return MergeRefused(
        f"{table.name}: {count} key{'s' if count != 1 else ''} are in the table with different content:{keys}",
        unchanged="nothing was published; a key is written once",
        next_step='correct the step, or keep the first content and count the rest: InsertOnly(on_conflict="keep")',
    )


def _keeps(pattern: object) -> bool:
    return isinstance(pattern, InsertOnly) and pattern.on_conflict == "keep"
