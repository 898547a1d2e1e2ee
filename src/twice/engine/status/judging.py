"""The one judge of partitions: done, stale, missing, failed or running, and why."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from twice.engine.attempt import lateness
from twice.engine.attempt.fingerprint import changed_parts, fingerprint, parts
from twice.engine.status.inputs import Change, Inputs, Sources
from twice.engine.status.records import ANY, Record, Slot, Slots, dimensions_of, moment
from twice.engine.status.values import PartitionStatus, Reason, State, StepStatus
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.ledger import Holding, LastAttempt, Ledger
    from twice.model.pipelines import Pipeline

Files = Callable[[Target], Mapping[Scope, str]]

_TOUCHED = Reason("touched", "", "the table's files are not the recorded ones: another writer changed it")


def status(
    ledger: Ledger | None,
    pipeline: Pipeline,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    live: Files | None = None,
    sources: Sources | None = None,
) -> list[StepStatus]:
    """Look at every step of a pipeline; without bounds, from the first to the last known partition.

    `live` returns what the written tables hold now, `sources` what the inputs hold.
    """
    with _no_search_for_cycles():
        records = [Record.of(ledger, pipeline, step, start, end) for step in pipeline.ordered()]
        window = _bounds(pipeline, records, start, end)
        inputs = Inputs(ledger, pipeline, records, window, sources)
        slots = Slots(window, pipeline.zone)
        found = []
        for record in records:
            judge = _Judge(pipeline, record, slots.of(record.step.writes), inputs, ledger, live)
            found.append(StepStatus(record.step.name, record.step.writes.name, tuple(judge.partitions())))
    return found


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Pause Python's garbage collector: it takes a quarter of the time, and the long lists hold no cycles."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def _bounds(
    pipeline: Pipeline, records: Sequence[Record], start: datetime | None, end: datetime | None
) -> Window | None:
    if start is None or end is None:
        known = [end for record in records for end in record.ends()]
        if not known:
            return None
        start = start or moment(min(known))
        end = end or moment(max(known))
    grain, zone = pipeline.grain, pipeline.zone
    last = grain.floor(end, zone)
    end = last if last == end else grain.next(last, zone)
    first = grain.floor(start, zone)
    return Window(first, end) if first < end else None


@dataclass
class _Judge:
    """One step, its partitions, and all that is needed to judge them."""

    pipeline: Pipeline
    record: Record
    slots: Sequence[Slot]
    inputs: Inputs
    ledger: Ledger | None
    live: Files | None

    def __post_init__(self) -> None:
        step = self.record.step
        self._code = fingerprint(step)
        self._old_code: dict[str, Reason] = {}
        self._awaited = lateness.awaited(step)
        self._read: tuple[str, dict[str, Mapping[str, str]]] = ("", {})

    def partitions(self) -> Iterator[PartitionStatus]:
        """Judge every partition of every combination of dimensions, in order."""
        attempts = self.record.last_attempts(self.slots)
        combinations = self.record.dimensions()
        nothing: dict[tuple[str | None, str | None], Holding] = {}
        for text in combinations:
            dimensions = dimensions_of(text)
            mine, all_of_it = (self.record.holdings.get(key, nothing) for key in (text, ANY))
            tried, tried_all = (attempts.get(key, {}) for key in (text, ANY))
            suffix = "".join(f" {name}={value}" for name, value in dimensions)
            files = self._files(text)
            for index, slot in enumerate(self.slots):
                holding = mine.get(slot.ends) or all_of_it.get(slot.ends)
                attempt = _later(tried.get(index), tried_all.get(index))
                if holding is None and attempt is None and not dimensions and len(combinations) > 1:
                    continue  # runs for single dimension values have lines of their own
                scope = Scope(slot.scope.window, dimensions) if dimensions else slot.scope
                now = files.get(scope) if files else None
                found = self._judged(slot.label + suffix, scope, holding, attempt, now)
                yield self._with_accepted(found, holding) if self.record.accepted and holding else found

    def _with_accepted(self, found: PartitionStatus, holding: Holding) -> PartitionStatus:
        """Add the gates that failed for what a partition holds, and were let through."""
        accepted = self.record.accepted.get(holding.run or "", ())
        # A run for all dimension values names the partition without them.
        mine = (each for each in accepted if f"{found.name} ".startswith(f"{each['partition']} "))
        return found._replace(accepted=tuple(mine))

    def _judged(
        self, name: str, scope: Scope, holding: Holding | None, attempt: LastAttempt | None, files: str | None
    ) -> PartitionStatus:
        rows = holding.rows if holding else None
        if attempt and attempt.status == "running":
            return PartitionStatus(name, scope, "running", (), rows, attempt.run)
        # An interrupted attempt says nothing about the partition that it was to replace.
        if attempt and (attempt.status in ("failed", "lost") or (attempt.status == "interrupted" and not holding)):
            return PartitionStatus(name, scope, "failed", (_failure(attempt),), rows, attempt.run)
        if holding is None:
            return PartitionStatus(name, scope, "missing")
        changes = self.inputs.changes(self.record, holding)
        waiting = self._is_open(holding) if self._awaited else None
        if not changes and holding.code == self._code and (files is None or files == holding.files):
            return PartitionStatus(name, scope, "done", (), rows, holding.run, waiting)
        weighed = [(change, self._policy(change, holding)) for change in changes]
        ignored = tuple(self._changed(change, late=True) for change, policy in weighed if policy == "ignore")
        late = [self._changed(change, late=True) for change, policy in weighed if policy == "fail"]
        reasons = (
            *late,
            *(self._changed(change) for change, policy in weighed if policy == "reopen"),
            *self._other_reasons(holding, files),
        )
        state: State = "failed" if late else "stale" if reasons else "done"
        return PartitionStatus(name, scope, state, reasons, rows, holding.run, waiting, ignored)

    def _other_reasons(self, holding: Holding, files: str | None) -> Iterator[Reason]:
        if holding.code.startswith("undo:"):
            yield Reason("undone", "", f"run {holding.code.removeprefix('undo:')} was undone")
        elif holding.code != self._code:
            yield self._code_reason(holding.code)
        if files is not None and files != holding.files:
            yield self._touched(holding)

    def _touched(self, holding: Holding) -> Reason:
        """Return who wrote to a partition since; of all dimension values, it may be a run for one of them."""
        ends = holding.start, holding.end
        others = (held.get(ends) for text, held in self.record.holdings.items() if text != ANY)
        newer = [each for each in others if each and each.run and each.run > (holding.run or "")]
        if holding.dimensions != ANY or not newer:
            return _TOUCHED
        last = max(newer, key=lambda each: each.run or "")
        values = ", ".join(f"{name}={value}" for name, value in dimensions_of(last.dimensions))
        text = f"run {last.run} wrote to it for {values} alone since: whether the other rows changed is not known"
        return Reason("touched", str(last.run), text)

    def _policy(self, change: Change, holding: Holding) -> str:
        """Return what becomes of a change: the table's own policy where a closed partition gets late rows."""
        if change.name not in self._awaited or not holding.start or not holding.end:
            return "reopen"
        step, zone = self.record.step, self.pipeline.zone
        window = Window(moment(holding.start), moment(holding.end))
        mine = {start[:19] for start in lateness.waits_for(step, change.read, window, zone)}
        closed = lateness.is_closed(step, change.read, window, change.recorded, zone)
        # A list of inputs may be that of a longer run: what came to other days is not this one's late rows.
        return step.writes.on_late if closed and mine.issuperset(change.starts) else "reopen"

    def _is_open(self, holding: Holding) -> bool | None:
        if not holding.start or not holding.end:
            return None
        window, zone = Window(moment(holding.start), moment(holding.end)), self.pipeline.zone
        if self._read[0] != holding.inputs:  # neighbours may share a long list
            self._read = holding.inputs, {each["name"]: each["partitions"] for each in self.record.read(holding)}
        return not all(
            lateness.is_closed(self.record.step, read, window, self._read[1].get(name, {}), zone)
            for name, read in self._awaited.items()
        )

    def _labels(self, change: Change) -> tuple[str, ...]:
        partition = change.read.table.partition
        if partition is None:
            return ()
        return tuple(partition.grain.label(moment(start), self.pipeline.zone) for start in change.starts)

    def _changed(self, change: Change, *, late: bool = False) -> Reason:
        return Reason.changed(change.read.table.name, self._labels(change), change.rows, late=late)

    def _code_reason(self, code: str) -> Reason:
        if code not in self._old_code:
            before = self.ledger.codes.parts(code) if self.ledger else None
            names = changed_parts(before, parts(self.record.step)) if before else ()
            what = f"the code changed: {', '.join(names)}" if names else "the code changed"
            self._old_code[code] = Reason("code", ", ".join(names), what)
        return self._old_code[code]

    def _files(self, text: str) -> Mapping[Scope, str]:
        if self.live is None or text not in self.record.holdings or not self.slots:
            return {}
        dimensions, table = dimensions_of(text), self.record.step.writes
        partitions = tuple(Scope(slot.scope.window, dimensions) for slot in self.slots)
        first, last = partitions[0].window, partitions[-1].window
        window = Window(first.start, last.end) if first and last else None
        return self.live(Target(table, Scope(window, dimensions), partitions, self.pipeline.zone))


def _later(one: LastAttempt | None, other: LastAttempt | None) -> LastAttempt | None:
    if one is None or other is None:
        return one or other
    return one if one.id > other.id else other


def _failure(attempt: LastAttempt) -> Reason:
    if attempt.status == "lost":
        text = "its process died before it recorded an end"
    elif attempt.status == "interrupted":
        text = "interrupted"
    else:
        text = attempt.error.splitlines()[0] if attempt.error else "failed"
    return Reason("error", text, text)
