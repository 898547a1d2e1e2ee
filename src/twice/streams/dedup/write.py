"""Write: keys are looked up in the table itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content import changes
from twice.content.digest import Digest
from twice.content.profile import profile
from twice.content.rows import column
from twice.content.schema import schema_fingerprint
from twice.engine.attempt.gating import judge
from twice.engine.attempt.merging import compare_by_key, matched_columns, refuse_null_keys
from twice.model.framework import WINDOW_COLUMN
from twice.model.patterns import InsertOnly, Merge
from twice.streams.dedup.rows import Counts, known_keys, near, one_per_key, without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.store.protocol import StagedRows


def stage_new(task: Task, staged: StagedRows, rows: DataFrame, order: str | None) -> Counts:
    """Stage the rows that the table does not hold yet, or whose version is newer than its own."""
    table = task.step.writes
    key = matched_columns(table)
    pattern = table.write
    if isinstance(pattern, InsertOnly) and (pattern.on_conflict == "keep" or order is not None):
        one = one_per_key(task, rows, key, order)
        try:
            _judge(task, one.rows)
            held = near(task, task.store.read(task.session, table, staged.base), one)
            if pattern.on_conflict == "keep":
                return _missing(task, staged, one.rows, held, one.copies)
            return _compared(task, staged, one.rows, held, one.copies)
        finally:
            one.release()
    return _compare_all(task, staged, rows, task.store.read(task.session, table, staged.base))


def _missing(task: Task, staged: StagedRows, rows: DataFrame, held: DataFrame, count: int) -> Counts:
    key = matched_columns(task.step.writes)
    # The first version of a table has nothing to look for.
    new = without(rows, known_keys(held, rows, key), key) if staged.base is not None else rows
    task.store.stage_changes(task.session, staged, new, insert_only=True)
    return Counts(count, staged.written, count - staged.written)


def stage_again(task: Task, staged: StagedRows, rows: DataFrame, order: str | None) -> Counts:
    """Stage the rows of a batch that is read again in the place of those that it wrote before."""
    table = task.step.writes
    key = matched_columns(table)
    held = task.store.read(task.session, table, staged.base)
    if isinstance(table.write, Merge):
        return _compare_all(task, staged, rows, held)
    one = one_per_key(task, rows, key, order)
    try:
        _judge(task, one.rows)
        mine = F.col(WINDOW_COLUMN).eqNullSafe(task.mark)
        others = near(task, held.where(~mine), one)
        new = without(one.rows, known_keys(others, one.rows, key), key).persist()
        try:
            gained = set(new.columns) - set(held.columns)
            if not gained and _content(new) == _content(held.where(mine).select(*map(column, new.columns))):
                return Counts(one.copies, 0, one.copies)
            task.store.stage_changes(task.session, staged, new, insert_only=True, instead_of=task.mark)
            count = new.count()
            return Counts(one.copies, count, one.copies - count, changed=True)
        finally:
            new.unpersist()
    finally:
        one.release()


def _compare_all(task: Task, staged: StagedRows, rows: DataFrame, held: DataFrame) -> Counts:
    """Compare every row: what differs under one key and version is refused, so nothing may be dropped before."""
    every = rows.persist()
    try:
        _judge(task, every)
        refuse_null_keys(task, every, task.step.writes.key)
        return _compared(task, staged, every, held, every.count())
    finally:
        every.unpersist()


def _compared(task: Task, staged: StagedRows, rows: DataFrame, held: DataFrame, count: int) -> Counts:
    written, kinds = compare_by_key(task, rows, held)
    total = sum(kinds.get(kind, 0) for kind in changes.WRITTEN)
    if total:
        task.store.stage_changes(
            task.session, staged, written, insert_only=not isinstance(task.step.writes.write, Merge)
        )
    return Counts(count, total, count - total)


def _judge(task: Task, rows: DataFrame) -> None:
    """Apply the table's gates to a batch's rows."""
    if task.step.writes.gates:
        judge(task, rows, check_keys=False)


def _content(rows: DataFrame) -> Digest:
    found = profile(rows, partition=(), key=())
    return next((seen.digest for seen in found.values()), Digest.empty(schema_fingerprint(rows.schema)))
