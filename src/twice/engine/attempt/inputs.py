"""Inputs: pinned to versions at the claim, cut to the window, and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twice.errors import StoreRefused
from twice.ledger import InputRecord
from twice.model.content import Content
from twice.model.grains import Day
from twice.model.scopes import Scope
from twice.model.tables import Cut, Read
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from twice.engine.attempt.task import Task
    from twice.engine.status import Sources
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Table


@dataclass(frozen=True)
class Pinned:
    """One input at the version that the run reads."""

    name: str
    read: Read
    cut: Cut
    version: str | None
    record: InputRecord
    apart: Mapping[Window, InputRecord] = field(default_factory=dict)


def pin(task: Task) -> list[Pinned]:
    """Resolve every input's version now; the step later reads exactly these versions."""
    return [_pin(task, name, read) for name, read in task.step.reads.items()]


def pin_unit(task: Task, inputs: Sequence[Pinned]) -> list[Pinned]:
    """Narrow the inputs of a chunk, at the same versions, to what the given task of one unit sees."""
    assert task.scope.window is not None  # noqa: S101 - a run always has a window
    lateness, zone = task.step.writes.lateness, task.pipeline.zone
    return [replace(pinned, cut=pinned.read.cut(task.scope.window, lateness, zone)) for pinned in inputs]


def records(task: Task, inputs: Sequence[Pinned], unit: Window | None = None) -> tuple[InputRecord, ...]:
    """Return what the ledger keeps of the inputs; and of the run itself, where the table does not show its scope.

    With a unit of a chunk: what a run of that unit alone would have kept.
    """
    found = [pinned.apart[unit] if unit else pinned.record for pinned in inputs]
    return with_scope(found, task.scope, task.target)


def with_scope(found: Sequence[InputRecord], scope: Scope, target: Target) -> tuple[InputRecord, ...]:
    """Add the scope of the run: a table without partitions has one record for all windows, which must name its own."""
    if target.scope == scope:
        return tuple(found)
    return (*found, InputRecord("(run)", target.table.name, "scope", None, {"scope": Content("run", str(scope)).text}))


def located(task: Task) -> list[Pinned]:
    """Resolve versions and cuts only: enough to read, without a record of what is read."""
    return [_locate(task, name, read) for name, read in task.step.reads.items()]


def arrives_apart(pipeline: Pipeline, step: Step, read: Read) -> bool:
    """Return whether rows may arrive in a later partition than they happened in, with grains and lateness in days."""
    table = read.table
    return (
        read.mode == "window"
        and not read.lookback
        and not step.writes.lateness.exact
        and table.partition is not None
        and table.event_time not in (None, table.partition.column)
        and table.partition.grain == pipeline.grain == Day
    )


def _pin(task: Task, name: str, read: Read) -> Pinned:
    found = _locate(task, name, read)
    record = replace(found.record, partitions=fingerprints(task, read, found.cut, found.version))
    return replace(found, record=record, apart={unit: _apart(task, record, read, unit) for unit in task.units})


def _locate(task: Task, name: str, read: Read) -> Pinned:
    store = task.stores.source(read.table)
    own = read.table.id == task.step.writes.id
    version = store.version(task.session, read.table)
    if version is None and not store.exists(task.session, read.table):
        if own:  # the first partition of a step that builds on its past
            return Pinned(name, read, Cut(None, None), None, InputRecord(name, read.table.name, read.mode, None, {}))
        raise StoreRefused(
            f"step {task.step.name}: its input {name} ({read.table.name}) does not exist",
            unchanged="nothing was changed",
            next_step=_producer_hint(task, read),
        )
    if own:
        _require_no_gap(task)
    return Pinned(name, read, cut_of(task, read), version, InputRecord(name, read.table.name, read.mode, version, {}))


def cut_of(task: Task, read: Read) -> Cut:
    """Return which part of an input a task sees."""
    assert task.scope.window is not None  # noqa: S101 - a run always has a window
    cut = read.cut(task.scope.window, task.step.writes.lateness, task.pipeline.zone)
    if read.table.id == task.step.writes.id and cut.partitions:
        # A step that depends on its past sees only what is before its own partition.
        return Cut(Window(cut.partitions.start, task.scope.window.start), None)
    return cut


def _apart(task: Task, record: InputRecord, read: Read, unit: Window) -> InputRecord:
    """Cut the record of a chunk's input to what one unit of the chunk sees."""
    cut = read.cut(unit, task.step.writes.lateness, task.pipeline.zone)
    if cut.partitions is None:
        seen = read.mode == "window" and cut.event is not None
        return replace(record, partitions=fingerprints(task, read, cut, record.version)) if seen else record
    low, high = cut.partitions.start.isoformat(), cut.partitions.end.isoformat()
    return replace(record, partitions={at: what for at, what in record.partitions.items() if low <= at < high})


def _require_no_gap(task: Task) -> None:
    """Refuse to build on a past whose last partition is missing; the very first one has no past."""
    window = task.scope.window
    assert window is not None  # noqa: S101 - a run always has a window
    until = task.ledger.outputs.built_until(task.step.writes.name, Scope(window, task.target.scope.dimensions))
    if until is not None and until != window.start:
        grain, zone = task.pipeline.grain, task.pipeline.zone
        raise StoreRefused(
            f"step {task.step.name} builds on its own past, but {task.step.writes.name} has not been built from "
            f"{grain.label(until, zone)} to {grain.label(window.start, zone)}",
            unchanged="nothing was changed",
            next_step=f"twice run {task.pipeline.name} --from {grain.label(until, zone)} --to "
            f"{grain.label(grain.next(window.start, zone), zone)}",
        )


@dataclass(frozen=True)
class AtVersion:
    """What a table holds in the version that an attempt reads."""

    task: Task
    version: str | None

    def files(self, target: Target) -> Mapping[Scope, str]:
        """Fingerprint what each partition holds."""
        return self.task.stores.source(target.table).files(self.task.session, target, self.version)

    def seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Fingerprint what a table without partitions holds of a window."""
        return self.task.stores.source(table).seen(self.task.session, table, event, zone)


def fingerprints(task: Task, read: Read, cut: Cut, version: str | None) -> dict[str, str]:
    """Fingerprint what is read, by partition: content where twice wrote it, else the files."""
    now = contents(task.ledger, AtVersion(task, version), read, cut, task.scope.dimensions, task.pipeline.zone, version)
    # What cannot be compared may have changed: no later run takes it for the same.
    return now if now is not None else {"window": Content("unknown", task.run).text}


def contents(
    ledger: Ledger,
    sources: Sources,
    read: Read,
    cut: Cut,
    dimensions: tuple[tuple[str, str], ...],
    zone: ZoneInfo,
    version: str | None,
) -> dict[str, str] | None:
    """Fingerprint what a read finds, by partition; None if the source cannot be compared."""
    if cut.partitions is None and read.mode == "window" and cut.event is not None:
        seen = sources.seen(read.table, cut.event, zone)
        return {"window": Content("seen", seen).text} if seen is not None else None
    if cut.partitions is None:
        return _as_a_whole(ledger, read, version) if read.mode == "as_of" else {}
    target = Target.of(read.table, Scope(cut.partitions, dimensions), zone)
    outputs = {output.scope: output for output in ledger.outputs.held(read.table.name, target.scope)}
    found = {}
    for partition, fingerprint in sources.files(target).items():
        known = outputs.get(partition)
        assert partition.window is not None  # noqa: S101 - cut by partition
        start = partition.window.start.isoformat()
        ours = known is not None and known.files == fingerprint
        found[start] = (Content.digest(known.digest) if known and ours else Content.files(fingerprint)).text
    return found


def _as_a_whole(ledger: Ledger, read: Read, version: str | None) -> dict[str, str]:
    """Fingerprint a history that is read across partitions: its content if twice wrote it in one piece."""
    known = ledger.outputs.find(read.table.name, Scope(None))
    if known is not None and known.version == version:
        return {"table": Content.digest(known.digest).text}
    return {"table": Content("version", str(version)).text}


def _producer_hint(task: Task, read: Read) -> str:
    producer = task.pipeline.producer(read.table)
    if producer is None:
        return f"create {read.table.name}, or correct the name in its Table(…)"
    return f"twice run {task.pipeline.name} --step {producer.name} --for … first, or leave --step out"
