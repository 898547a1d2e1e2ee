"""Gate: the staged rows are judged, partition by partition, before readers can see them."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from twice.content.digest import Digest
from twice.content.filters import partition_filter, scope_filter
from twice.content.profile import PartitionProfile, duplicate_samples, null_key_samples, profile
from twice.content.rows import column
from twice.content.schema import order_sensitive, schema_fingerprint
from twice.engine.attempt.samples import LIMIT, rows_text
from twice.errors import GateFailed, KeyViolation, OutOfScope, PermanentError, SchemaRefused
from twice.model import gates as g

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.model.scopes import Scope
    from twice.store.protocol import StagedRows

_ENOUGH = 3
# The number of failures that a message lists.
_SHOWN = 20
_UNCHANGED = "nothing was published; the last good version stays readable"


@dataclass
class Verdict:
    """What the gates found: the content of each partition, remarks that stop nothing, and what was refused.

    `accepted` lists the failures that the run accepts, with the reason.
    """

    digests: dict[Scope, Digest]
    remarks: list[str] = field(default_factory=list)
    refused: dict[Scope, PermanentError] = field(default_factory=dict)
    accepted: list[dict[str, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all partitions."""
        return sum(digest.rows for digest in self.digests.values())


@dataclass(frozen=True)
class Failure:
    """What one gate found in one partition."""

    gate: g.Gate
    partition: Scope
    what: str
    samples: Sequence[Mapping[str, object]] = ()


def refuse_strays(task: Task, staged: StagedRows) -> None:
    """Refuse staged rows outside the scope."""
    if not staged.strays:
        return
    stray = staged.strays[0]
    samples = task.store.stray_rows(task.session, staged, LIMIT)
    raise OutOfScope(
        f"step {task.step.name} returned {stray.rows} row{'s' if stray.rows != 1 else ''} outside its scope "
        f"{task.target.scope} of {task.step.writes.name}, in {'; '.join(stray.values[:LIMIT])}:"
        f"{rows_text(task.step.writes, samples)}",
        unchanged=_UNCHANGED,
        next_step=stray.hint
        or "filter the step's result to the window, or give it the right partition value; "
        "a null partition value belongs to no partition",
    )


def judge(
    task: Task,
    rows: DataFrame,
    *,
    check_keys: bool = True,
    unique: bool = False,
    seen: PartitionProfile | None = None,
) -> Verdict:
    """Profile rows in one pass and apply every gate of the table to each partition.

    `unique`: the plan that made the rows proves that the keys are unique; nulls in them are still counted. `seen`: the
    profile of the only partition that was taken during the write, used unless the rows are read with another schema.
    """
    table = task.step.writes
    key = table.key if check_keys else ()
    if seen is not None and seen.digest.schema == schema_fingerprint(rows.schema):
        found = {task.target.partitions[0]: seen}
    else:
        found = profiled(task, rows, key=key, violations=violations(task, rows), unique=unique)
    verdict = Verdict({partition: found[partition].digest for partition in task.target.partitions})
    # What the table holds after a merge is judged after the merge.
    gates = [gate for gate in table.gates if check_keys or not isinstance(gate, g.RowCountChange)]
    if task.chunk.partial and check_keys and len(found) > 1:
        _judge_apart(task, rows, found, _without_needless(task, rows, gates), verdict)
    else:
        _stop(task, bad_keys(task, rows, found) if check_keys else [], _failures(task, gates, found, rows, verdict))
    if inexact := order_sensitive(rows.schema):
        verdict.remarks.append(f"{', '.join(inexact)}: sums of float and double depend on row order; decimal does not")
    return verdict


def _judge_apart(
    task: Task,
    rows: DataFrame,
    found: Mapping[Scope, PartitionProfile],
    gates: Sequence[g.Gate],
    verdict: Verdict,
) -> None:
    """Judge each partition by itself, in order; the verdict omits what is refused, unless nothing is left."""
    for partition, seen in found.items():
        alone, accepted = {partition: seen}, len(verdict.accepted)
        bad = seen.null_keys or seen.duplicate_keys
        try:
            keys = bad_keys(task, _only(task, rows, partition), alone) if bad else []
            _stop(task, keys, _failures(task, gates, alone, rows, verdict))
        except (GateFailed, KeyViolation) as error:
            verdict.refused[partition] = error
            del verdict.digests[partition], verdict.accepted[accepted:]
    if not verdict.digests:
        raise next(iter(verdict.refused.values()))


def _without_needless(task: Task, rows: DataFrame, gates: Sequence[g.Gate]) -> list[g.Gate]:
    """Leave out gates that one query over all partitions has shown to pass."""
    place = task.step.writes.partition
    return [
        gate
        for gate in gates
        if place is None
        or not isinstance(gate, g.Unique)
        or duplicate_samples(rows, (place.column,), gate.columns, limit=1)
    ]


def judge_growth(task: Task, verdict: Verdict) -> None:
    """Apply the row-count gates that compare a merged table with what it held before."""
    gates = [gate for gate in task.step.writes.gates if isinstance(gate, g.RowCountChange)]
    found = {partition: PartitionProfile(digest, violations={}) for partition, digest in verdict.digests.items()}
    _stop(task, [], _failures(task, gates, found, None, verdict))


def profiled(
    task: Task,
    rows: DataFrame,
    *,
    key: Sequence[str],
    violations: Mapping[str, Column] | None = None,
    unique: bool = False,
) -> dict[Scope, PartitionProfile]:
    """Profile rows by the target's partitions; a partition without rows has an empty profile."""
    table = task.step.writes
    by_values = profile(
        rows,
        partition=(task.target.partition_column,) if task.target.partition_column else (),
        dimensions=table.dimensions,
        where=scope_filter(task.target),
        key=key,
        violations=violations,
        unique=unique,
    )
    empty = Digest.empty(schema_fingerprint(rows.schema))
    merged = {partition: PartitionProfile(empty, violations={}) for partition in task.target.partitions}
    # The filter left only rows that fit the scope's dimensions.
    fixed = [dict(task.target.scope.dimensions).get(name, "") for name in table.dimensions]
    for values, seen in by_values.items():
        partition = task.target.partition_of(values[0], fixed) if values else task.target.partitions[0]
        if partition is not None:
            merged[partition] = seen
    return merged


def refuse_bad_keys(task: Task, rows: DataFrame, found: Mapping[Scope, PartitionProfile], *, where: str) -> None:
    """Refuse duplicate and null business keys, by name."""
    _stop(task, bad_keys(task, rows, found, where=where), [])


def bad_keys(
    task: Task, rows: DataFrame, found: Mapping[Scope, PartitionProfile], *, where: str = "the result"
) -> list[KeyViolation]:
    """Return what is wrong with the business keys: nulls, and keys that occur more than once."""
    table = task.step.writes
    problems = []
    nulls = sum(seen.null_keys for seen in found.values())
    if nulls:
        samples = null_key_samples(rows, table.partition_columns, table.key, LIMIT)
        problems.append(
            KeyViolation(
                f"{table.name}: {nulls} row{'s' if nulls != 1 else ''} of {where} of step {task.step.name} have a null "
                f"in the business key ({', '.join(table.key)}):{rows_text(table, samples)}",
                unchanged=_UNCHANGED,
                next_step="filter or repair these rows in the step",
            )
        )
    duplicates = sum(seen.duplicate_keys for seen in found.values())
    if duplicates:
        samples = duplicate_samples(rows, table.partition_columns, table.key, LIMIT)
        problems.append(
            KeyViolation(
                f"{table.name}: {duplicates} business key{'s' if duplicates != 1 else ''} ({', '.join(table.key)}) "
                f"occur more than once in {where} of step {task.step.name}:{rows_text(table, samples)}",
                unchanged=_UNCHANGED,
                next_step="deduplicate in the step by a version that decides, or correct key= of the table",
            )
        )
    return problems


def violations(task: Task, rows: DataFrame) -> dict[str, Column]:
    """Return the row-by-row gates as conditions that are true for a bad row."""
    found = {}
    for gate in task.step.writes.gates:
        if isinstance(gate, g.NotNull | g.Accepted | g.Range):
            if gate.column not in rows.columns:
                raise SchemaRefused(
                    f"{task.step.writes.name}: a gate checks {gate.column}, which the step does not return"
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


def _failures(
    task: Task,
    gates: Sequence[g.Gate],
    found: Mapping[Scope, PartitionProfile],
    rows: DataFrame | None,
    verdict: Verdict,
) -> list[Failure]:
    """Apply every gate to every partition; return what they found and the run does not accept."""
    failures = []
    for partition, seen in found.items():
        for gate in gates:
            failure = _apply(task, gate, partition, seen, rows, verdict)
            if failure is None:
                continue
            if because := task.accepted_gates.get(gate.text):
                known = {"gate": gate.text, "partition": task.target.name(partition), "found": failure.what}
                verdict.accepted.append({**known, "because": because})
            else:
                failures.append(failure)
    return failures


def _apply(
    task: Task, gate: g.Gate, partition: Scope, seen: PartitionProfile, rows: DataFrame | None, verdict: Verdict
) -> Failure | None:
    count = seen.digest.rows
    if isinstance(gate, g.RowCountChange):
        return _judge_change(task, gate, partition, count, verdict)
    if isinstance(gate, g.RowCount):
        wrong = (gate.min is not None and count < gate.min) or (gate.max is not None and count > gate.max)
        return Failure(gate, partition, f"it has {count}") if wrong else None
    assert rows is not None  # noqa: S101 - only counts are judged without rows
    if not isinstance(gate, g.NotNull | g.Accepted | g.Range):
        return _ask(task, gate, partition, _only(task, rows, partition))
    if bad := seen.violations.get(gate.text, 0):
        failing = _only(task, rows, partition).where(violations(task, rows)[gate.text])
        return Failure(gate, partition, f"{bad} of {count} rows fail", _few(failing))
    return None


def _ask(task: Task, gate: g.Unique | g.Sql | g.Check, partition: Scope, rows: DataFrame) -> Failure | None:
    """Apply a gate that needs a query of its own."""
    if isinstance(gate, g.Unique):
        repeated = duplicate_samples(rows, (), gate.columns, LIMIT)
        return Failure(gate, partition, "some values occur more than once", repeated) if repeated else None
    if isinstance(gate, g.Sql):
        rows.createOrReplaceTempView("staged")
        answer: object = task.session.sql(gate.query)
    else:
        answer = gate.function(rows)
    if isinstance(answer, DataFrame):
        if found := _few(answer):
            if task.step.writes.personal:  # a column that the query made may hold a personal value
                found = [{k: v if k in rows.columns else "(personal)" for k, v in row.items()} for row in found]
            return Failure(gate, partition, "it returned rows", found)
    elif isinstance(answer, str) or answer is False:
        return Failure(gate, partition, answer or "it returned False")
    return None


def _few(rows: DataFrame) -> list[dict[str, object]]:
    return [row.asDict(recursive=True) for row in rows.limit(LIMIT).collect()]


def _judge_change(task: Task, gate: g.RowCountChange, partition: Scope, count: int, verdict: Verdict) -> Failure | None:
    table = task.step.writes.name
    before = task.ledger.outputs.find(table, partition)
    if before is not None and before.rows:
        usual, of_what = float(before.rows), "at its last publish"
    else:
        history = _row_history(task, gate, partition, verdict)
        if len(history) < _ENOUGH:
            verdict.remarks.append(f"{gate.text}: not judged, only {len(history)} earlier partitions are known")
            return None
        usual, of_what = float(statistics.median(history)), f"in the last {len(history)} partitions"
    low, high = usual * (1 - gate.ratio), usual * (1 + gate.ratio)
    if low <= count <= high:
        return None
    change = f"{count / usual - 1:+.0%}" if usual else "from none"
    return Failure(gate, partition, f"it has {count}, usual {of_what} was {usual:g} ({change})")


def _row_history(task: Task, gate: g.RowCountChange, partition: Scope, verdict: Verdict) -> list[int]:
    """Return the row counts of earlier partitions, nearest first; those of the same chunk that passed are among them.

    A day is judged in a chunk as it would be after the days before it.
    """
    earlier: list[int] = []
    if task.chunk.partial and task.target.partitions[0] != partition:
        judged = task.target.partitions[: task.target.partitions.index(partition)]
        earlier = [verdict.digests[each].rows for each in reversed(judged) if each in verdict.digests]
    first = task.target.partitions[0] if earlier else partition
    return (earlier + task.ledger.outputs.row_counts(task.step.writes.name, first, gate.history))[: gate.history]


def _only(task: Task, rows: DataFrame, partition: Scope) -> DataFrame:
    return rows.where(partition_filter(task.target, partition)) if len(task.target.partitions) > 1 else rows


def _stop(task: Task, keys: Sequence[KeyViolation], failures: Sequence[Failure]) -> None:
    """Stop with one error that names everything that was found; bad keys are never accepted, and come first."""
    if not keys and not failures:
        return
    shown = [error.message for error in keys] + [_text(task, failure) for failure in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        shown.append(f"and {len(failures) - _SHOWN} more")
    message = "\n".join(shown)
    if keys:
        raise KeyViolation(message, unchanged=_UNCHANGED, next_step="; ".join(error.next_step for error in keys))
    gates = dict.fromkeys(failure.gate.text for failure in failures)
    accept = " ".join(f"--accept {shlex.quote(gate)}" for gate in gates)
    raise GateFailed(
        message,
        unchanged=_UNCHANGED,
        next_step="correct the input or the step, or the gate if this is the new normal; then run it again. "
        f'If the result is unusual but right, accept it for one run: twice run … {accept} --because "…"',
    )


def _text(task: Task, failure: Failure) -> str:
    table, name = task.step.writes, task.target.name(failure.partition)
    samples = f":{rows_text(table, failure.samples)}" if failure.samples else ""
    return (
        f"{table.name}, {name}: the gate “{failure.gate.text}” stopped step {task.step.name}: {failure.what}{samples}"
    )
