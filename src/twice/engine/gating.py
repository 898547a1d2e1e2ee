"""Gate: the staged rows are judged, partition by partition, before anyone can read them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from twice.content.digest import Digest
from twice.content.filters import partition_filter
from twice.content.profile import PartitionProfile, duplicate_samples, null_key_samples, profile
from twice.content.rows import column
from twice.content.schema import order_sensitive, schema_fingerprint
from twice.engine.samples import LIMIT, rows_text
from twice.errors import GateFailed, KeyViolation, OutOfScope, PermanentError, SchemaRefused
from twice.model import gates as g

if TYPE_CHECKING:
    from twice.engine.job import Job
    from twice.model.scopes import Scope
    from twice.store.protocol import Stage

_ENOUGH = 3
_SAFE = "nothing was published; the last good version stays readable"


@dataclass
class Verdict:
    """What the gates saw: the content of each partition, remarks that stop nothing, and what was refused."""

    digests: dict[Scope, Digest]
    remarks: list[str] = field(default_factory=list)
    refused: dict[Scope, PermanentError] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of all partitions."""
        return sum(digest.rows for digest in self.digests.values())


def refuse_strays(job: Job, stage: Stage) -> None:
    """Refuse a stage that holds rows outside the scope."""
    if not stage.strays:
        return
    stray = stage.strays[0]
    samples = job.store.stray_rows(job.session, stage, LIMIT)
    raise OutOfScope(
        f"step {job.step.name} returned {stray.rows} row{'s' if stray.rows != 1 else ''} outside its scope "
        f"{job.target.scope} of {job.step.writes.name}, in {'; '.join(stray.values[:LIMIT])}:"
        f"{rows_text(job.step.writes, samples)}",
        safe=_SAFE,
        to_go_on=stray.hint
        or "filter the step's result to the window, or give it the right partition value; "
        "a null partition value belongs to no partition",
    )


def judge(job: Job, rows: DataFrame, *, check_keys: bool = True, unique: bool = False) -> Verdict:
    """Profile rows in one pass and apply every gate of the table to each partition.

    `unique`: the keys are known to be, by the plan that made the rows; nulls in them are counted all the same.
    """
    table = job.step.writes
    key = table.key if check_keys else ()
    found = profiled(job, rows, key=key, violations=_violations(job, rows), unique=unique)
    verdict = Verdict({partition: found[partition].digest for partition in job.target.partitions})
    # What a merge makes of the table is judged after the merge.
    gates = [gate for gate in table.gates if check_keys or not isinstance(gate, g.RowCountChange)]
    if job.partial and check_keys and len(found) > 1:
        _judge_apart(job, rows, found, _without_needless(job, rows, gates), verdict)
    else:
        if check_keys:
            refuse_bad_keys(job, rows, found)
        for partition, seen in found.items():
            for gate in gates:
                _apply(job, gate, partition, seen, rows, verdict)
    if inexact := order_sensitive(rows.schema):
        verdict.remarks.append(f"{', '.join(inexact)}: sums of float and double depend on row order; decimal does not")
    return verdict


def _judge_apart(
    job: Job,
    rows: DataFrame,
    found: Mapping[Scope, PartitionProfile],
    gates: Sequence[g.Gate],
    verdict: Verdict,
) -> None:
    """Judge each partition by itself, in order; what is refused leaves the verdict, unless nothing is left."""
    for partition, seen in found.items():
        try:
            if seen.null_keys or seen.duplicate_keys:
                refuse_bad_keys(job, _only(job, rows, partition), {partition: seen})
            for gate in gates:
                _apply(job, gate, partition, seen, rows, verdict)
        except (GateFailed, KeyViolation) as error:
            verdict.refused[partition] = error
            del verdict.digests[partition]
    if not verdict.digests:
        raise next(iter(verdict.refused.values()))


def _without_needless(job: Job, rows: DataFrame, gates: Sequence[g.Gate]) -> list[g.Gate]:
    """Leave out gates that one query over all partitions has shown to pass."""
    place = job.step.writes.partition
    return [
        gate
        for gate in gates
        if place is None
        or not isinstance(gate, g.Unique)
        or duplicate_samples(rows, (place.column,), gate.columns, limit=1)
    ]


def judge_growth(job: Job, verdict: Verdict) -> None:
    """Apply the row-count gates that compare a merged table with what it held before."""
    for gate in job.step.writes.gates:
        if isinstance(gate, g.RowCountChange):
            for partition, digest in verdict.digests.items():
                _judge_change(job, gate, partition, digest.rows, verdict)


def profiled(
    job: Job,
    rows: DataFrame,
    *,
    key: Sequence[str],
    violations: Mapping[str, Column] | None = None,
    unique: bool = False,
) -> dict[Scope, PartitionProfile]:
    """Profile rows by the target's partitions; a partition without rows has an empty profile."""
    table = job.step.writes
    by_values = profile(rows, partition=table.partition_columns, key=key, violations=violations, unique=unique)
    empty = Digest.empty(schema_fingerprint(rows.schema))
    merged = {partition: PartitionProfile(empty, violations={}) for partition in job.target.partitions}
    for values, seen in by_values.items():
        value, dimensions = (values[0], values[1:]) if table.partition else (None, values)
        partition = job.target.partition_of(value, dimensions)
        if partition is not None:
            merged[partition] = _sum(merged[partition], seen)
    return merged


def _sum(left: PartitionProfile, right: PartitionProfile) -> PartitionProfile:
    names = {*left.violations, *right.violations}
    return PartitionProfile(
        left.digest + right.digest,
        left.duplicate_keys + right.duplicate_keys,
        left.null_keys + right.null_keys,
        {name: left.violations.get(name, 0) + right.violations.get(name, 0) for name in names},
    )


def refuse_bad_keys(
    job: Job, rows: DataFrame, found: Mapping[Scope, PartitionProfile], *, where: str = "the result"
) -> None:
    """Refuse duplicate and null business keys, by name."""
    table = job.step.writes
    nulls = sum(seen.null_keys for seen in found.values())
    if nulls:
        samples = null_key_samples(rows, table.partition_columns, table.key, LIMIT)
        raise KeyViolation(
            f"{table.name}: {nulls} row{'s' if nulls != 1 else ''} of {where} of step {job.step.name} have a null in "
            f"the business key ({', '.join(table.key)}):{rows_text(table, samples)}",
            safe=_SAFE,
            to_go_on="filter or repair these rows in the step",
        )
    duplicates = sum(seen.duplicate_keys for seen in found.values())
    if duplicates:
        samples = duplicate_samples(rows, table.partition_columns, table.key, LIMIT)
        raise KeyViolation(
            f"{table.name}: {duplicates} business key{'s' if duplicates != 1 else ''} ({', '.join(table.key)}) occur "
            f"more than once in {where} of step {job.step.name}:{rows_text(table, samples)}",
            safe=_SAFE,
            to_go_on="deduplicate in the step by a version that decides, or correct key= of the table",
        )


def _violations(job: Job, rows: DataFrame) -> dict[str, Column]:
    """Say the row-by-row gates as conditions that are true for a bad row."""
    found = {}
    for gate in job.step.writes.gates:
        if isinstance(gate, g.NotNull | g.Accepted | g.Range):
            if gate.column not in rows.columns:
                raise SchemaRefused(
                    f"{job.step.writes.name}: a gate looks at {gate.column}, which the step does not return"
                )
            value = column(gate.column)
            if isinstance(gate, g.NotNull):
                found[gate.text] = value.isNull()
            elif isinstance(gate, g.Accepted):
                found[gate.text] = ~value.isin(list(gate.values))
            else:
                found[gate.text] = _outside(value, gate)
    return found


def _outside(value: Column, gate: g.Range) -> Column:
    low = value < F.lit(gate.min) if gate.min is not None else F.lit(False)
    high = value > F.lit(gate.max) if gate.max is not None else F.lit(False)
    return low | high


def _apply(job: Job, gate: g.Gate, partition: Scope, seen: PartitionProfile, rows: DataFrame, verdict: Verdict) -> None:
    count = seen.digest.rows
    if isinstance(gate, g.NotNull | g.Accepted | g.Range):
        if bad := seen.violations.get(gate.text, 0):
            wrong = _only(job, rows, partition).where(_violations(job, rows)[gate.text])
            raise _failed(job, gate, partition, f"{bad} of {count} rows fail", _few(wrong))
    elif isinstance(gate, g.RowCount):
        if (gate.min is not None and count < gate.min) or (gate.max is not None and count > gate.max):
            raise _failed(job, gate, partition, f"it has {count}")
    elif isinstance(gate, g.RowCountChange):
        _judge_change(job, gate, partition, count, verdict)
    else:
        _ask(job, gate, partition, _only(job, rows, partition))


def _ask(job: Job, gate: g.Unique | g.Sql | g.Check, partition: Scope, rows: DataFrame) -> None:
    """Apply a gate that needs a query of its own."""
    if isinstance(gate, g.Unique):
        if repeated := duplicate_samples(rows, (), gate.columns, LIMIT):
            raise _failed(job, gate, partition, "some values occur more than once", repeated)
        return
    if isinstance(gate, g.Sql):
        rows.createOrReplaceTempView("staged")
        said: object = job.session.sql(gate.query)
    else:
        said = gate.function(rows)
    if isinstance(said, DataFrame):
        if found := _few(said):
            if job.step.writes.personal:  # a column that the query made may hold a personal value
                found = [{k: v if k in rows.columns else "(personal)" for k, v in row.items()} for row in found]
            raise _failed(job, gate, partition, "it returned rows", found)
    elif isinstance(said, str) or said is False:
        raise _failed(job, gate, partition, said or "it said no")


def _few(rows: DataFrame) -> list[dict[str, object]]:
    return [row.asDict(recursive=True) for row in rows.limit(LIMIT).collect()]


def _judge_change(job: Job, gate: g.RowCountChange, partition: Scope, count: int, verdict: Verdict) -> None:
    table = job.step.writes.name
    before = job.ledger.output(table, partition)
    if before is not None and before.rows:
        usual, of_what = float(before.rows), "at its last publish"
    else:
        history = _row_history(job, gate, partition, verdict)
        if len(history) < _ENOUGH:
            verdict.remarks.append(f"{gate.text}: not judged, only {len(history)} earlier partitions are known")
            return
        usual, of_what = float(statistics.median(history)), f"in the last {len(history)} partitions"
    low, high = usual * (1 - gate.ratio), usual * (1 + gate.ratio)
    if not low <= count <= high:
        change = f"{count / usual - 1:+.0%}" if usual else "from none"
        raise _failed(job, gate, partition, f"it has {count}, usual {of_what} was {usual:g} ({change})")


def _row_history(job: Job, gate: g.RowCountChange, partition: Scope, verdict: Verdict) -> list[int]:
    """Return the row counts of earlier partitions, nearest first; those of the same chunk that passed are among them.

    A day is judged in a chunk as it would be after the days before it.
    """
    earlier: list[int] = []
    if job.partial and job.target.partitions[0] != partition:
        judged = job.target.partitions[: job.target.partitions.index(partition)]
        earlier = [verdict.digests[each].rows for each in reversed(judged) if each in verdict.digests]
    first = job.target.partitions[0] if earlier else partition
    return (earlier + job.ledger.row_history(job.step.writes.name, first, gate.history))[: gate.history]


def _only(job: Job, rows: DataFrame, partition: Scope) -> DataFrame:
    return rows.where(partition_filter(job.target, partition)) if len(job.target.partitions) > 1 else rows


def _failed(
    job: Job, gate: g.Gate, partition: Scope, what: str, samples: list[dict[str, object]] | None = None
) -> GateFailed:
    table = job.step.writes
    return GateFailed(
        f"{table.name}, {job.target.name(partition)}: the gate “{gate.text}” stopped step {job.step.name}: {what}"
        + (f":{rows_text(table, samples)}" if samples else ""),
        safe=_SAFE,
        to_go_on="correct the input or the step, or the gate if this is the new normal; then run it again",
    )
