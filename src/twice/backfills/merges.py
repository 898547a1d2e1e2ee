"""Whether the merged rows of a unit still match its inputs: the planner's view of tables without partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.status.inputs import has_changed
from twice.ledger import second
from twice.model.content import Content
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from twice.engine.status.inputs import Sources
    from twice.ledger import Holding, InputRecord, Ledger, Merged
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Read, Table
    from twice.model.windows import Window

_GOOD = ("published", "unchanged", "fresh", "superseded")

Dimensions = tuple[tuple[str, str], ...]


class Now:
    """What the inputs of a merge hold now, for the units of a span; without `sources`, as far as `twice` wrote them."""

    def __init__(
        self, ledger: Ledger | None, pipeline: Pipeline, step: Step, span: Window, sources: Sources | None = None
    ) -> None:
        self._ledger, self._pipeline, self._step, self._sources = ledger, pipeline, step, sources
        self._span = span
        self._code = fingerprint(step)
        self._held: dict[str, dict[str, dict[str, Holding]]] = {}
        self._files: dict[tuple[str, Dimensions], Mapping[str, str]] = {}
        self._seen: dict[tuple[str, Window], str | None] = {}

    def state(self, merged: Merged | None, window: Window) -> str:
        """Judge one unit by the last attempt that covered it."""
        if merged is None:
            return "missing"
        if merged.status not in _GOOD:
            return "failed"
        changed = merged.code != self._code or any(self._changed(merged, each, window) for each in merged.inputs)
        return "stale" if changed else "done"

    def _changed(self, merged: Merged, record: InputRecord, window: Window) -> bool:
        read = self._step.reads.get(record.name)
        if read is None or read.table.name != record.table or record.mode != "window" or read.mode != "window":
            return False
        if read.table.partition is None:
            return self._is_seen_otherwise(merged, record, read)
        cut = read.cut(window, self._step.writes.lateness, self._pipeline.zone).partitions
        assert cut is not None  # noqa: S101 - a windowed read of a partitioned table
        low, high = cut.start.isoformat(), cut.end.isoformat()
        dimensions = tuple(each for each in merged.scope.dimensions if each[0] in read.table.dimensions)
        held = self._holdings(read.table)
        mine, all_of_it = held.get(_text(dimensions), {}), held.get(_text(()), {})
        files = self._live(record.name, read, dimensions)
        for key, before in record.partitions.items():
            start = key[:19]
            if low <= key < high and has_changed(
                Content.read(before), mine.get(start), all_of_it.get(start), files.get(start)
            ):
                return True
        return False

    def _is_seen_otherwise(self, merged: Merged, record: InputRecord, read: Read) -> bool:
        """Compare what an attempt saw of an input without partitions, if the source can be compared."""
        recorded = Content.read(record.partitions.get("window", ""))
        if self._sources is None or merged.scope.window is None or recorded.kind != "seen":
            return False
        event = read.cut(merged.scope.window, self._step.writes.lateness, self._pipeline.zone).event
        if event is None:
            return False
        key = (read.table.name, event)
        if key not in self._seen:
            self._seen[key] = self._sources.seen(read.table, event, self._pipeline.zone)
        now = self._seen[key]
        return now is not None and recorded != Content("seen", now)

    def _holdings(self, table: Table) -> dict[str, dict[str, Holding]]:
        if table.name not in self._held:
            found: dict[str, dict[str, Holding]] = {}
            for holding in self._ledger.outputs.holdings(table.name) if self._ledger else []:
                if holding.start:
                    found.setdefault(holding.dimensions, {})[holding.start] = holding
            self._held[table.name] = found
        return self._held[table.name]

    def _live(self, record: str, read: Read, dimensions: Dimensions) -> Mapping[str, str]:
        """Ask a source once for everything that the units of the span may have read from it."""
        cut = read.cut(self._span, self._step.writes.lateness, self._pipeline.zone).partitions
        if self._sources is None or cut is None:
            return {}
        key = (record, dimensions)
        if key not in self._files:
            files = self._sources.files(Target.of(read.table, Scope(cut, dimensions), self._pipeline.zone))
            self._files[key] = {
                second(each.window.start): text
                for each, text in files.items()
                if each.window and Content.files(text).is_known
            }
        return self._files[key]


def _text(dimensions: Dimensions) -> str:
    """Write dimensions as the ledger does."""
    return json.dumps(dict(dimensions), sort_keys=True, separators=(",", ":"))
