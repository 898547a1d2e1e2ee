"""The inputs of a recorded run, found again: at their versions, or where they still hold what was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from twice.engine.attempt.inputs import Pinned, cut_of, fingerprints
from twice.engine.attempt.retries import is_transient
from twice.errors import StoreRefused, TwiceError
from twice.model.content import Content
from twice.store.protocol import UNVERSIONED

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.ledger import InputRecord
    from twice.model.tables import Read, Table

_KEEP = "this run can no longer be rebuilt; to keep versions of later runs longer: twice maintain --keep 90d"
_LAND = "land it in a table with versions (Iceberg or Delta) and read that, so that later runs can be rebuilt"


def pin_again(task: Task, recorded: Sequence[InputRecord]) -> list[Pinned]:
    """Pin every input to what the run has read; refused where that is gone."""
    known = {record.name: record for record in recorded}
    if missing := [name for name in task.step.reads if name not in known]:
        raise StoreRefused(f"the run recorded no version of its input {missing[0]}")
    return [_again(task, name, read, known[name]) for name, read in task.step.reads.items()]


def is_readable(task: Task, table: Table, version: str | None) -> bool:
    """Return whether a store still has a version of a table."""
    source = task.stores.source(table)
    if not source.exists(task.session, table):
        return False
    if version is None:
        return True
    if not source.abilities.history:
        return False
    try:
        source.read(task.session, table, version).schema  # noqa: B018 - Spark looks the version up
    except (PySparkException, Py4JError, TwiceError) as error:
        if is_transient(error):
            raise
        return False
    return True


def _again(task: Task, name: str, read: Read, record: InputRecord) -> Pinned:
    found = Pinned(name, read, cut_of(task, read), record.version, record)
    own = read.table.id == task.step.writes.id
    if is_readable(task, read.table, record.version) or (own and record.version is None):
        return found
    source = task.stores.source(read.table)
    what = f"its input {name} ({read.table.name})"
    if not source.exists(task.session, read.table):
        raise StoreRefused(f"{what} no longer exists")
    now = source.version(task.session, read.table)
    if _holds_the_same(task, found, now):
        return replace(found, version=now)
    if source.abilities.history:
        raise StoreRefused(
            f"version {record.version} of {what} has expired, and the rows that the run read have changed since",
            next_step=_KEEP,
        )
    if _is_incomparable(record):
        raise StoreRefused(
            f"{what} has no versions: a {source.abilities.kind} source does not show whether its rows are those "
            "that the run read",
            next_step=_LAND,
        )
    raise StoreRefused(f"{what} has no versions, and what the run has read of it has changed since", next_step=_LAND)


def _holds_the_same(task: Task, pinned: Pinned, now: str | None) -> bool:
    """Return whether an input holds now, in what the run saw of it, exactly what it held then."""
    if _is_incomparable(pinned.record):
        return False
    before = dict(pinned.record.partitions)
    if not before:  # the whole table was read
        return now == pinned.version
    return before == fingerprints(task, pinned.read, pinned.cut, now)


def _is_incomparable(record: InputRecord) -> bool:
    """Return whether nothing was recorded by which rows could be recognized."""
    return record.version == UNVERSIONED or any(not Content.read(text).is_known for text in record.partitions.values())
