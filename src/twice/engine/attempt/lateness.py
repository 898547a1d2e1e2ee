"""Open and closed partitions: whether everything that a partition waits for had arrived when it was built.

An input that is partitioned by ingestion date and declares its `event_time` delivers rows of a day for some more days:
`lateness` of the written table sets how many. As long as one of these ingestion partitions is missing, the day
is open; then it is closed, and what still arrives is late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from twice.errors import LateData
from twice.model.content import Content

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task
    from twice.ledger import InputRecord, Output
    from twice.model.scopes import Scope
    from twice.model.steps import Step
    from twice.model.tables import Read
    from twice.model.windows import Window

# What is recorded of a partition that was empty or absent.
_NOTHING = Content.files("").text


def awaited(step: Step) -> dict[str, Read]:
    """Return the inputs that deliver rows of a window in later partitions, too."""
    if step.writes.partition is None:
        return {}
    return {name: read for name, read in step.reads.items() if brings_late_rows(read)}


def brings_late_rows(read: Read) -> bool:
    """Return whether an input is partitioned by when rows came, and knows when they happened."""
    table = read.table
    return (
        read.mode == "window"
        and table.partition is not None
        and table.event_time is not None
        and table.event_time != table.partition.column
    )


def is_closed(step: Step, read: Read, window: Window, recorded: Mapping[str, str], zone: ZoneInfo) -> bool:
    """Return whether every ingestion partition that a window waits for was there when it was read.

    Where `twice` made them, each has its record, also an empty one. Elsewhere an empty one looks like one
    that is still to come: the last of them must hold rows.
    """
    held = [recorded.get(start, _NOTHING) for start in waits_for(step, read, window, zone)]
    ours = any(Content.read(text).kind == "digest" for text in held)
    return all(text != _NOTHING for text in held) if ours else held[-1] != _NOTHING


def waits_for(step: Step, read: Read, window: Window, zone: ZoneInfo) -> list[str]:
    """Return the ingestion partitions that a window reads, by their starts as records name them."""
    assert read.table.partition is not None  # noqa: S101 - only asked for inputs with partitions
    span = read.cut(window, step.writes.lateness, zone).partitions
    assert span is not None  # noqa: S101 - a partitioned input is cut by partition
    return [each.start.isoformat() for each in read.table.partition.grain.partitions(span, zone)]


def takes_no_late_rows(task: Task) -> bool:
    """Return whether the table refuses late rows of a closed partition, and the run does not accept them."""
    return task.step.writes.on_late == "fail" and not task.accept_late and bool(awaited(task.step))


def overlooked(task: Task, output: Output, now: Sequence[InputRecord]) -> Sequence[InputRecord]:
    """Return the current inputs, with `on_late="ignore"` without what arrived late for a closed partition."""
    if task.step.writes.on_late != "ignore":
        return now
    late = _came_late(task, output, now)
    recorded = {record.name: record.partitions for record in output.inputs}
    return [replace(record, partitions=recorded[record.name]) if record.name in late else record for record in now]


def refuse_late_rows(task: Task, known: Mapping[Scope, Output], now: Mapping[Scope, Sequence[InputRecord]]) -> None:
    """Stop a run over a closed partition whose inputs have changed since."""
    for partition in task.target.partitions:
        output = known.get(partition)
        for name, starts in _came_late(task, output, now[partition]).items() if output else ():
            raise _refusal(task, partition, task.step.reads[name], starts)


def _came_late(task: Task, output: Output, now: Sequence[InputRecord]) -> dict[str, list[str]]:
    """Return the inputs with rows that arrived for a partition after it was closed, and the days of arrival."""
    recorded = {record.name: record for record in output.inputs}
    window, zone = output.scope.window, task.pipeline.zone
    after = {record.name: record for record in now}
    found = {}
    for name, read in awaited(task.step).items() if window else ():
        if name not in recorded or name not in after or window is None:
            continue
        old, new = recorded[name].partitions, after[name].partitions
        # Only the partition's own days of arrival count: either record may be that of a longer run.
        mine = [start for start in waits_for(task.step, read, window, zone) if start in old and start in new]
        changed = [start for start in mine if old[start] != new[start]]
        if changed and is_closed(task.step, read, window, old, zone):
            found[name] = changed
    return found


def _refusal(task: Task, partition: Scope, read: Read, starts: Sequence[str]) -> LateData:
    grain, zone, table = task.pipeline.grain, task.pipeline.zone, read.table
    assert table.partition is not None  # noqa: S101 - only inputs with partitions deliver rows late
    assert partition.window is not None  # noqa: S101 - only tables with partitions are closed
    labels = [table.partition.grain.label(datetime.fromisoformat(start), zone) for start in starts]
    unit = grain.label(grain.floor(partition.window.start, zone), zone)
    return LateData(
        f"{task.step.writes.name}, {task.target.name(partition)} was closed, and {table.name} {', '.join(labels)} "
        "changed since",
        unchanged="nothing was changed; the partition holds what it was closed with",
        next_step=f"twice run {task.pipeline.name} --for {unit} --accept-late includes the late rows",
    )
