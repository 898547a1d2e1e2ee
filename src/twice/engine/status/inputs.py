"""Which inputs hold something else now than what a partition was made from."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from twice.engine.status.records import ANY, Record, dimensions_of, moment
from twice.ledger import Holding, second
from twice.model.content import Content
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.tables import Read, Table


class Sources(Protocol):
    """What the inputs hold at this moment; no Spark job is needed to answer."""

    def files(self, target: Target) -> Mapping[Scope, str]:
        """Fingerprint what each partition of an input holds; an empty one is an empty text."""

    def seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Fingerprint what a table without partitions holds of a window; None: it has no fingerprint."""


@dataclass(frozen=True)
class Change:
    """One input that is not what it was: its partitions that changed, by their starts; none for a whole read.

    `recorded` is all that was read of it, `rows` how many rows more there are, where both contents are known.
    """

    name: str
    read: Read
    starts: tuple[str, ...]
    recorded: Mapping[str, str]
    rows: int | None = None


class Inputs:
    """What the input tables hold now, as far as `twice` wrote them; with `sources`, all of them.

    Partitions that were made in one attempt may share their list of inputs: each list is checked once.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        pipeline: Pipeline,
        records: Sequence[Record],
        window: Window | None,
        sources: Sources | None,
    ) -> None:
        self._pipeline, self._sources = pipeline, sources
        self._found: dict[tuple[str, str], dict[str, tuple[Change, ...]]] = {}
        self._hulls = _hulls(pipeline, records, window)
        self._files: dict[tuple[str, str], dict[str, str]] = {}
        self._made_from: dict[str, dict[str, tuple[Window, ...]]] = {}
        self._tables: dict[str, dict[str, dict[str, Holding]]] = {}
        for name, hull in self._hulls.items():
            known = next((each for each in records if each.step.writes.name == name and each.complete), None)
            if known:
                held = [holding for holdings in known.holdings.values() for holding in holdings.values()]
            else:
                held = ledger.outputs.holdings(name, hull) if ledger else []
            table = self._tables.setdefault(name, {})
            for holding in held:
                if holding.start:
                    table.setdefault(holding.dimensions, {})[holding.start] = holding

    def changes(self, record: Record, holding: Holding) -> tuple[Change, ...]:
        """Name the inputs that hold something else than what the partition was made from."""
        if not record.step.reads:
            return ()
        known = self._found.setdefault((record.step.name, holding.dimensions), {})
        found = known.get(holding.inputs)
        if found is None:
            found = known[holding.inputs] = tuple(self._changes(record, holding, record.read(holding)))
        return found

    def _changes(self, record: Record, holding: Holding, read: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
        for each in read:
            mine = record.step.reads.get(each["name"])
            if mine is None or mine.table.name != each["table"] or each["mode"] != "window" or mine.mode != "window":
                continue
            if mine.table.partition is None:
                yield from self._unseen(record, holding, each, mine)
            elif changed := self._changed(holding, each["partitions"], mine.table):
                yield Change(each["name"], mine, tuple(changed), each["partitions"], _total(changed.values()))

    def _changed(self, holding: Holding, recorded: Mapping[str, str], table: Table) -> dict[str, int | None]:
        """Return the starts of the partitions that changed, with the rows that came to each where that is known."""
        dimensions = holding.dimensions
        if dimensions != ANY:
            seen = {name: value for name, value in dimensions_of(dimensions) if name in table.dimensions}
            dimensions = json.dumps(seen, sort_keys=True, separators=(",", ":"))
        held = self._tables.get(table.name, {})
        mine, all_of_it = held.get(dimensions, {}), held.get(ANY, {})
        files = self._live(table, dimensions) if self._sources else None
        found: dict[str, int | None] = {}
        for key, text in recorded.items():
            start = key[:19]
            now = mine.get(start) or all_of_it.get(start)
            if files is None and now is not None and Content.is_digest(text, now.digest):
                continue  # the usual case, a hundred thousand times
            before, live = Content.read(text), files.get(start) if files is not None else None
            if has_changed(before, mine.get(start), all_of_it.get(start), live):
                by_files = live is not None and _by_files(before, mine.get(start), live)
                found[start] = None if by_files or now is None else now.rows - (before.rows or 0)
        return dict(sorted(found.items())) if found else found

    def _unseen(self, record: Record, holding: Holding, each: Mapping[str, Any], read: Read) -> Iterator[Change]:
        """Compare what was seen of an input without partitions, if the source can be compared and it was one unit's."""
        recorded = Content.read(str(each["partitions"].get("window", "")))
        units = self._units(record, holding.inputs) if self._sources and recorded.kind == "seen" else ()
        if self._sources is None or len(units) != 1:
            return
        event = read.cut(units[0], record.step.writes.lateness, self._pipeline.zone).event
        now = self._sources.seen(read.table, event, self._pipeline.zone) if event else None
        if now is not None and recorded != Content("seen", now):
            yield Change(each["name"], read, (), each["partitions"])

    def _units(self, record: Record, inputs: str) -> tuple[Window, ...]:
        """Return the units of the pipeline's grain that were made from one list of inputs."""
        name = record.step.name
        if name not in self._made_from:
            found: dict[str, dict[Window, None]] = {}
            for holdings in record.holdings.values():
                for holding in holdings.values():
                    if holding.start:
                        unit = self._pipeline.grain.containing(moment(holding.start), self._pipeline.zone)
                        found.setdefault(holding.inputs, {})[unit] = None
            self._made_from[name] = {key: tuple(units) for key, units in found.items()}
        return self._made_from[name].get(inputs, ())

    def _live(self, table: Table, dimensions: str) -> dict[str, str]:
        """Ask a source once for all its partitions that may matter."""
        assert self._sources is not None  # noqa: S101 - only asked where there are sources
        key, hull = (table.name, dimensions), self._hulls.get(table.name)
        if key not in self._files:
            found = {}
            if hull is not None:
                scope = Scope(hull, dimensions_of(dimensions))
                files = self._sources.files(Target.of(table, scope, self._pipeline.zone))
                found = {
                    second(each.window.start): text
                    for each, text in files.items()
                    if each.window and Content.files(text).is_known
                }
            self._files[key] = found
        return self._files[key]


def _hulls(pipeline: Pipeline, records: Sequence[Record], window: Window | None) -> dict[str, Window]:
    """Return for each partitioned input the span of its partitions that a run may have read."""
    found: dict[str, Window] = {}
    for record in records:
        for read in record.step.reads.values():
            table = read.table
            if table.partition is None or read.mode != "window":
                continue
            if record.step.writes.partition:
                span = read.cut(window, record.step.writes.lateness, pipeline.zone).partitions if window else None
            else:
                span = _read_by(pipeline, record, table)
            if span is not None:
                known = found.get(table.name, span)
                found[table.name] = Window(min(known.start, span.start), max(known.end, span.end))
    return found


def _read_by(pipeline: Pipeline, record: Record, table: Table) -> Window | None:
    """Return the span that the records of a table without partitions name: there are few."""
    assert table.partition is not None  # noqa: S101 - only asked for partitioned tables
    starts = [
        start[:19]
        for text in record.inputs.values()
        for each in json.loads(text)
        if each["table"] == table.name and each["mode"] == "window"
        for start in each["partitions"]
    ]
    if not starts:
        return None
    return Window(moment(min(starts)), table.partition.grain.next(moment(max(starts)), pipeline.zone))


def has_changed(recorded: Content, mine: Holding | None, all_of_it: Holding | None, live: str | None) -> bool:
    """Return whether a partition of an input holds something else; `live` is its fingerprint, None: not requested."""
    if live is not None and _by_files(recorded, mine, live):
        return recorded.has_other_files(live)
    now = mine or all_of_it
    return now is not None and recorded.differs_from(now.rows, now.digest)


def _by_files(recorded: Content, held: Holding | None, fingerprint: str) -> bool:
    """Return whether only files can be compared: then or now, they are not what `twice` wrote."""
    return recorded.kind == "files" or held is None or held.files != fingerprint


def _total(rows: Collection[int | None]) -> int | None:
    known = [count for count in rows if count is not None]
    return sum(known) if len(known) == len(rows) else None
