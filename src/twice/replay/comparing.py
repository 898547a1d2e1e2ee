"""What was rebuilt against what was recorded: by digest, and by rows where the published ones can still be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from twice.content.difference import Difference, OtherRow, by_partition, difference, other_rows
from twice.content.digest import Digest
from twice.content.filters import partition_filter, scope_filter
from twice.content.likeness import nearly_same, shaped
from twice.content.schema import order_sensitive, schema_fingerprint
from twice.engine.attempt.gating import profiled
from twice.engine.attempt.samples import rows_text
from twice.errors import StoreRefused
from twice.replay.pinning import is_readable
from twice.replay.report import StepReplay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from twice.engine.attempt.task import Task
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.replay.recorded import Recorded


@dataclass(frozen=True)
class Rebuilt:
    """The rows of a scope as they were rebuilt, in the form that the table stores, and their digests."""

    rows: DataFrame
    digests: Mapping[Scope, Digest]

    @property
    def count(self) -> int:
        """Rows of all partitions."""
        return sum(digest.rows for digest in self.digests.values())


def compare(task: Task, recorded: Recorded, rows: DataFrame, *, limit: int) -> StepReplay:
    """Compare rebuilt rows with the record of a run; `limit` is how many rows that differ are shown."""
    published = _published(task, recorded)
    expected = {output.scope: Digest.parse(output.digest) for output in recorded.outputs}
    rebuilt = _held(task, rows, _schema(task, published, rows, expected), expected)
    wrong = [scope for scope, digest in expected.items() if not _equal(digest, rebuilt.digests.get(scope))]
    count = sum(digest.rows for digest in expected.values())
    step, attempt = task.step, recorded.attempt
    found = StepReplay(
        step.name, step.writes.name, str(attempt.scope), "same", _rebuilt_text(count), "", count, rebuilt.count
    )
    if not wrong:
        return found
    if published is not None and (inexact := order_sensitive(rebuilt.rows.schema)):
        chosen = _any_of(task, wrong, rebuilt.rows), _any_of(task, wrong, published)
        if nearly_same(*chosen, inexact):
            alike = f"{', '.join(inexact)}: equal except for the last digits (relative 1e-9); decimal is exact"
            return replace(found, remarks=[alike])
    return _differs(task, found, rebuilt, published, wrong, limit)


def _rebuilt_text(rows: int) -> str:
    return f"rebuilt: the same {rows} row{'' if rows == 1 else 's'}"


def _published(task: Task, recorded: Recorded) -> DataFrame | None:
    """Read what the run published: at its version, or where the table still holds it; None if it is gone."""
    table, version = task.step.writes, recorded.attempt.version
    if is_readable(task, table, version):
        return task.store.read(task.session, table, version).where(scope_filter(task.target))
    if not task.store.exists(task.session, table):
        return None
    now = task.store.version(task.session, table)
    files = task.store.files(task.session, task.target, now)
    held = {output.scope: output for output in task.ledger.outputs.held(table.name, task.target.scope)}
    for output in recorded.outputs:
        current = held.get(output.scope)
        if current is None or (current.digest, current.files) != (output.digest, files.get(output.scope)):
            return None
    return task.store.read(task.session, table, now).where(scope_filter(task.target))


def _schema(task: Task, published: DataFrame | None, rows: DataFrame, expected: Mapping[Scope, Digest]) -> StructType:
    """Return the columns and types under which the recorded digests were made."""
    if published is not None:
        return published.schema
    table = task.step.writes
    there = task.store.exists(task.session, table)
    known = [task.store.read(task.session, table, None).schema] if there else []
    wanted = {digest.schema for digest in expected.values() if digest.rows}
    for schema in (*known, rows.schema):
        if wanted <= {schema_fingerprint(schema)}:
            return schema
    raise StoreRefused(
        f"{table.name} has other columns than the run published, and that version is gone: the rebuilt rows cannot be "
        "given the types that they were stored with"
    )


def _held(task: Task, rows: DataFrame, schema: StructType, expected: Mapping[Scope, Digest]) -> Rebuilt:
    """Let Spark hold the rows, so that every comparison reads the same ones."""
    kept = shaped(rows, schema).where(scope_filter(task.target)).localCheckpoint()
    found = profiled(task, kept, key=())
    # What a gate refused of a chunk was not published, and is not compared.
    return Rebuilt(kept, {scope: found[scope].digest for scope in expected if scope in found})


def _equal(left: Digest, right: Digest | None) -> bool:
    return right is not None and (left == right or left.rows == right.rows == 0)


def _differs(
    task: Task, found: StepReplay, rebuilt: Rebuilt, published: DataFrame | None, wrong: Sequence[Scope], limit: int
) -> StepReplay:
    table, names = task.step.writes, [task.target.name(scope) for scope in wrong]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    why = f"{names[0]}{more}: the rebuilt rows are not those that the run published"
    if task.step.nondeterministic:
        why += f"; the step is declared as non-deterministic ({task.step.nondeterministic})"
    if published is None:
        lost = "the published rows are no longer kept, so only their number and digest could be compared"
        return replace(found, status="differs", why=why, remarks=[lost])
    before, after = _any_of(task, wrong, published), _any_of(task, wrong, rebuilt.rows)
    counts = by_partition(task.target, difference(before, after, partition=table.partition_columns, key=table.key))
    if not any(not each.same for each in counts.values()):
        lost = "the table's version holds the rebuilt rows, but not those of its record: another writer changed it"
        return replace(found, status="differs", why=f"{names[0]}{more}: {lost}")
    rows = other_rows(before, after, partition=table.partition_columns, key=table.key, limit=limit) if limit else []
    return replace(
        found,
        status="differs",
        why=why,
        partitions={task.target.name(scope): _shown(table, each) for scope, each in counts.items() if not each.same},
        samples=[line for row in rows for line in _lines(table, row)],
    )


def _any_of(task: Task, scopes: Sequence[Scope], rows: DataFrame) -> DataFrame:
    """Cut rows to some partitions of the target."""
    return rows.where(reduce(lambda one, other: one | other, (partition_filter(task.target, each) for each in scopes)))


def _shown(table: Table, found: Difference) -> Difference:
    """Leave out sums of personal values: of a single row the sum is the value."""
    return replace(found, sums={name: both for name, both in found.sums.items() if name not in table.personal})


def _lines(table: Table, row: OtherRow) -> list[str]:
    """Show a row as it was published and as it was rebuilt; personal values are hidden."""
    sides = (("-", row.old), ("+", row.new))
    return [f"{sign} {rows_text(table, [values]).strip()}" for sign, values in sides if values is not None]
