"""What is done, failed, running, missing or stale, step by step and partition by partition.

All of it comes from the ledger; with `live` the tables are asked too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal

from twice.content.digest import Digest
from twice.engine.fingerprint import fingerprint
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.ledger import AttemptInfo, InputRecord, Ledger, Output
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Table

State = Literal["done", "failed", "running", "missing", "stale"]
STATES: tuple[State, ...] = ("done", "stale", "missing", "failed", "running")

Dimensions = tuple[tuple[str, str], ...]
Files = Callable[[Target], Mapping[Scope, str]]

_EVER = Window(datetime(1, 1, 2, tzinfo=timezone.utc), datetime(9999, 12, 30, tzinfo=timezone.utc))
# The longest grain: no partition ends later than this after its start.
_LONGEST = timedelta(days=32)


@dataclass(frozen=True)
class Reason:
    """Why a partition is not done: `subject` is what groups of partitions have in common."""

    kind: Literal["data", "code", "touched", "undone", "error"]
    subject: str
    text: str

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "subject": self.subject, "text": self.text}


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of one step's table."""

    name: str
    scope: Scope
    state: State
    reasons: tuple[Reason, ...] = ()
    rows: int | None = None
    run: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "partition": self.name,
            "scope": self.scope.to_json(),
            "state": self.state,
            "reasons": [reason.to_json() for reason in self.reasons],
            "rows": self.rows,
            "run": self.run,
        }


@dataclass(frozen=True)
class StepStatus:
    """One step with the partitions of its table, in order."""

    step: str
    table: str
    partitions: tuple[PartitionStatus, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions are in each state."""
        found = Counter(partition.state for partition in self.partitions)
        return {state: found[state] for state in STATES if found[state]}

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step,
            "table": self.table,
            "counts": self.counts,
            "partitions": [partition.to_json() for partition in self.partitions],
        }


def status(
    ledger: Ledger | None,
    pipeline: Pipeline,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    live: Files | None = None,
) -> list[StepStatus]:
    """Look at every step of a pipeline; without bounds, from the first to the last known partition."""
    records = [_Record.of(ledger, pipeline, step, start, end) for step in pipeline.ordered()]
    window = _bounds(pipeline, records, start, end)
    inputs = _Inputs(ledger, records)
    targets = _targets(pipeline, window)
    return [
        StepStatus(
            record.step.name,
            record.step.writes.name,
            tuple(_partitions(pipeline, record, targets(record.step.writes), inputs, live)),
        )
        for record in records
    ]


def _targets(pipeline: Pipeline, window: Window | None) -> Callable[[Table], Target | None]:
    """Return a function from tables to their targets; tables of one grain share their partitions."""
    cut: dict[str, tuple[Scope, ...]] = {}

    def target(table: Table) -> Target | None:
        if table.partition is None:
            return Target(table, Scope(None), (Scope(None),), pipeline.zone)
        if window is None:
            return None
        grain = table.partition.grain
        if grain.name not in cut:
            cut[grain.name] = tuple(Scope(each) for each in grain.partitions(window, pipeline.zone))
        return Target(table, Scope(window), cut[grain.name], pipeline.zone)

    return target


@dataclass(frozen=True)
class _Record:
    """What the ledger knows of one step."""

    step: Step
    outputs: Mapping[Scope, Output]
    attempts: Sequence[AttemptInfo]
    complete: bool = False

    @classmethod
    def of(
        cls, ledger: Ledger | None, pipeline: Pipeline, step: Step, start: datetime | None, end: datetime | None
    ) -> _Record:
        if ledger is None:
            return cls(step, {}, ())
        window = Window(start or _EVER.start, end or _EVER.end)
        limit = window if (start or end) and step.writes.partition else None
        outputs = {output.scope: output for output in ledger.outputs(step.writes.name, limit)}
        attempts = ledger.last_attempts(pipeline.name, step.name, window).values()
        return cls(step, outputs, sorted(attempts, key=lambda attempt: attempt.id), complete=limit is None)

    def windows(self) -> Iterator[Window]:
        if self.step.writes.partition:
            scopes: Iterable[Scope] = (*self.outputs, *(attempt.scope for attempt in self.attempts))
            yield from (scope.window for scope in scopes if scope.window)

    def dimensions(self) -> list[Dimensions]:
        """Every combination of dimension values that was ever run; the open one alone if none was."""
        found = {scope.dimensions for scope in self.outputs} | {attempt.scope.dimensions for attempt in self.attempts}
        return sorted(found) or [()]


def _bounds(
    pipeline: Pipeline, records: Sequence[_Record], start: datetime | None, end: datetime | None
) -> Window | None:
    if start is None or end is None:
        known = [window for record in records for window in record.windows()]
        if not known:
            return None
        start = start or min(window.start for window in known)
        end = end or max(window.end for window in known)
    grain, zone = pipeline.grain, pipeline.zone
    last = grain.floor(end, zone)
    end = last if last == end else grain.next(last, zone)
    first = grain.floor(start, zone)
    return Window(first, end) if first < end else None


def _partitions(
    pipeline: Pipeline, record: _Record, target: Target | None, inputs: _Inputs, live: Files | None
) -> Iterator[PartitionStatus]:
    if target is None:
        return
    step = record.step
    newest = _newest_attempts(record, target)
    code = fingerprint(step)
    combinations = record.dimensions()
    for dimensions in combinations:
        files = _files(record, target, dimensions, live)
        for partition in target.partitions:
            scope = Scope(partition.window, dimensions)
            output = record.outputs.get(scope) or record.outputs.get(partition)
            found = [newest[key] for key in {(partition.window, dimensions), (partition.window, ())} if key in newest]
            attempt = max(found, key=lambda attempt: attempt.id, default=None)
            if not dimensions and len(combinations) > 1 and output is None and attempt is None:
                continue  # runs for single dimension values have lines of their own
            state, reasons = _judge(pipeline, step, output, attempt, code, inputs, files.get(scope))
            run = attempt.run if attempt and state in ("failed", "running") else output.run if output else None
            yield PartitionStatus(target.name(scope), scope, state, reasons, output.rows if output else None, run)


def _newest_attempts(record: _Record, target: Target) -> dict[tuple[Window | None, Dimensions], AttemptInfo]:
    """Lay attempts over the partitions in the order they were made: the last one stays visible."""
    windows = [partition.window for partition in target.partitions]
    starts = [window.start for window in windows if window]
    found: dict[tuple[Window | None, Dimensions], AttemptInfo] = {}
    for attempt in record.attempts:
        scope = attempt.scope
        if scope.window is None or not starts:
            found[None, scope.dimensions] = attempt
            continue
        for index in range(bisect_left(starts, scope.window.start), bisect_left(starts, scope.window.end)):
            found[windows[index], scope.dimensions] = attempt
    return found


def _judge(
    pipeline: Pipeline,
    step: Step,
    output: Output | None,
    attempt: AttemptInfo | None,
    code: str,
    inputs: _Inputs,
    files: str | None,
) -> tuple[State, tuple[Reason, ...]]:
    if attempt and attempt.status == "running":
        return "running", ()
    if attempt and attempt.status in ("failed", "lost", "interrupted"):
        return "failed", (_failure(attempt),)
    if output is None:
        return "missing", ()
    reasons = list(inputs.changed(pipeline, step, output))
    if output.code.startswith("undo:"):
        reasons.append(Reason("undone", "", f"run {output.code.removeprefix('undo:')} was undone"))
    elif output.code != code:
        reasons.append(Reason("code", "", "the code changed"))
    if files is not None and files != output.files:
        reasons.append(Reason("touched", "", "the table's files are not the recorded ones: somebody else wrote to it"))
    return ("stale" if reasons else "done"), tuple(reasons)


def _failure(attempt: AttemptInfo) -> Reason:
    if attempt.status == "lost":
        text = "its process ended without a word"
    elif attempt.status == "interrupted":
        text = "interrupted"
    else:
        text = attempt.error.splitlines()[0] if attempt.error else "failed"
    return Reason("error", text, text)


def _files(record: _Record, target: Target, dimensions: Dimensions, live: Files | None) -> Mapping[Scope, str]:
    if live is None or not any(scope.dimensions == dimensions for scope in record.outputs):
        return {}
    scope = Scope(target.scope.window, dimensions)
    partitions = tuple(Scope(partition.window, dimensions) for partition in target.partitions)
    return live(Target(target.table, scope, partitions, target.zone))


class _Inputs:
    """What the input tables hold now, as far as `twice` wrote them.

    Partitions that were made in one attempt share their list of inputs: each list is looked at once.
    """

    def __init__(self, ledger: Ledger | None, records: Sequence[_Record]) -> None:
        lists = {id(output.inputs): output.inputs for record in records for output in record.outputs.values()}
        spans: dict[str, tuple[str, str]] = {}
        # Only windowed reads are kept by partition; other records say whose they are, or name a whole table.
        windowed = (read for inputs in lists.values() for read in inputs if read.mode == "window" and read.partitions)
        for read in windowed:
            low, high = min(read.partitions), max(read.partitions)
            span = spans.get(read.table, (low, high))
            spans[read.table] = (min(span[0], low), max(span[1], high))
        self._found: dict[tuple[str, int, Dimensions], tuple[Reason, ...]] = {}
        self._tables: dict[str, dict[tuple[str, Dimensions], Output]] = {}
        for table, (low, high) in spans.items():
            assert ledger is not None  # noqa: S101 - there are outputs, so there is a ledger
            window = Window(datetime.fromisoformat(low), datetime.fromisoformat(high) + _LONGEST)
            known = next((r for r in records if r.step.writes.name == table and r.complete), None)
            outputs = known.outputs.values() if known else ledger.outputs(table, window)
            self._tables[table] = {
                (output.scope.window.start.isoformat(), output.scope.dimensions): output
                for output in outputs
                if output.scope.window
            }

    def changed(self, pipeline: Pipeline, step: Step, output: Output) -> tuple[Reason, ...]:
        """Name the inputs that hold something else than what the output was made from."""
        key = (step.name, id(output.inputs), output.scope.dimensions)
        if key not in self._found:
            self._found[key] = tuple(self._changed(pipeline, step, output))
        return self._found[key]

    def _changed(self, pipeline: Pipeline, step: Step, output: Output) -> Iterator[Reason]:
        for record in output.inputs:
            read = step.reads.get(record.name)
            if read is None or read.table.name != record.table or read.table.partition is None:
                continue
            if record.mode != "window":
                continue
            dimensions = tuple(item for item in output.scope.dimensions if item[0] in read.table.dimensions)
            starts = [start for start in sorted(record.partitions) if self._differs(record, start, dimensions)]
            if starts:
                grain = read.table.partition.grain
                first = grain.label(datetime.fromisoformat(starts[0]), pipeline.zone)
                more = f" and {len(starts) - 1} more" if len(starts) > 1 else ""
                yield Reason("data", record.table, f"{record.table} {first}{more} changed")

    def _differs(self, record: InputRecord, start: str, dimensions: Dimensions) -> bool:
        table, recorded = self._tables.get(record.table, {}), record.partitions[start]
        now = table.get((start, dimensions)) or table.get((start, ()))
        if now is None:
            return False
        if recorded == "files:":  # read while there was nothing
            return now.rows > 0
        kind, _, digest = recorded.partition(":")
        if kind != "digest" or now.digest == digest:
            return False
        return now.rows > 0 or Digest.parse(digest).rows > 0
