"""Whether a checkpoint, a table and a source belong together: what would lose or duplicate rows is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.errors import StreamRefused
from twice.model.framework import FRAMEWORK_COLUMNS
from twice.model.streams import STREAM_MARK, KafkaSource, StreamMark, Windowed
from twice.model.tables import Table
from twice.streams.checkpoints import Checkpoint
from twice.streams.sources import is_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import Runtime
    from twice.model.streams import Stream

_UNCHANGED = "nothing was read, the table is as it was"


def has_own_offsets(runtime: Runtime, stream: Stream) -> bool:
    """Return whether offsets alone define what was read; for files and generated rows the checkpoint keeps more."""
    if isinstance(stream.reads, Table):
        return runtime.stores.source(stream.reads).abilities.offsets
    return isinstance(stream.reads, KafkaSource)


@dataclass(frozen=True)
class Admission:
    """A stream that wants to run: what it declares, and the checkpoint that it would continue from."""

    runtime: Runtime
    session: SparkSession
    stream: Stream
    checkpoint: Checkpoint
    source: str

    def admit(self, *, resume: bool, aside: str) -> None:
        """Let the stream run, or raise why it may not; `resume`: what the table holds is right, continue from there."""
        mark, seen = self._mark(self.stream.writes), self._mark(self.stream.seen)
        if resume:
            self._resume(mark, seen, aside)
            return
        self.checkpoint.check()
        query = self.checkpoint.query
        self._require_same_source(query)
        if mark is None:
            self._require_nothing_written(query)
        else:
            self._require_its_table(mark, query)
        self._require_its_keys(mark, seen, query)

    def _mark(self, table: Table | None) -> StreamMark | None:
        """Return which batch a table holds; None without a table, or if no stream has written it."""
        if table is None or not (store := self.runtime.stores.of(table)).exists(self.session, table):
            return None
        return StreamMark.read(store.remembered(self.session, table, STREAM_MARK))

    def _require_same_source(self, query: str | None) -> None:
        known = self.runtime.ledger.streams.find(self.stream.pipeline, self.stream.name)
        if known is None or query is None or known.query != query or is_same(known.source, self.source):
            return
        raise self._refused(
            f"the checkpoint {self.checkpoint.path} has read {known.source}, but the stream reads {self.source}: its "
            "offsets say nothing about another source"
        )

    def _require_nothing_written(self, query: str | None) -> None:
        """Refuse a checkpoint whose batches were written into a table that does not have them."""
        stream = self.stream
        if query is None:
            return
        known = self.runtime.ledger.streams.batches.list(stream.pipeline, stream.name, query=query)
        if done := [batch for batch in known if batch.ended_at is not None and batch.rows_out]:
            raise StreamRefused(
                f"the checkpoint {self.checkpoint.path} has read up to batch {done[0].batch}, but {stream.writes.name} "
                "does not have it: the table was dropped, replaced or restored, and what was read would be missing",
                unchanged=_UNCHANGED,
                next_step=f"restore {stream.writes.name}, or remove {' and '.join(self._all_but_the_table)} to read "
                "the source again",
            )

    @property
    def _all_but_the_table(self) -> list[str]:
        seen = self.stream.seen
        return [*([seen.name] if seen is not None else []), f"the checkpoint {self.checkpoint.path}"]

    def _require_its_table(self, mark: StreamMark, query: str | None) -> None:
        """Refuse a table whose batches are not the checkpoint's."""
        name, table, path = self.stream.full_name, self.stream.writes.name, self.checkpoint.path
        if mark.stream != name:
            raise self._refused(
                f"{table} is written by the stream {mark.stream}, up to batch {mark.batch} of query {mark.query}: "
                f"{name} is another query"
            )
        if query is None:
            raise self._refused(
                f"{table} has the batches up to {mark.batch} of query {mark.query}, but the checkpoint {path} is new: "
                "the query would read its source from the beginning"
            )
        if query != mark.query:
            known = self.runtime.ledger.streams.find(self.stream.pipeline, self.stream.name)
            if known is None or known.query != query:
                raise self._refused(
                    f"the checkpoint {path} is of query {query}, but {table} has the batches up to {mark.batch} of "
                    f"query {mark.query}"
                )
            # Resumed under this id, and stopped before its first batch.
            self._require_nothing_written(query)
            return
        last = self.checkpoint.last
        if last is None or last < mark.batch:
            raise self._refused(
                f"the checkpoint {path} ends with batch {last}, but {table} has the batches up to {mark.batch}: it is "
                "an older copy"
            )
        if last > mark.batch + 1:
            raise self._refused(
                f"the checkpoint {path} has read up to batch {last}, but {table} has the batches up to {mark.batch} "
                "only: it was restored, and what was read since would be missing"
            )

    def _require_its_keys(self, mark: StreamMark | None, seen: StreamMark | None, query: str | None) -> None:
        """Refuse what the level remembers of other batches than those that the table holds."""
        if isinstance(self.stream.dedup, Windowed):
            if mark is not None and query is not None and not self.checkpoint.has_state:
                raise self._forgets(mark)
            return
        if (table := self.stream.seen) is None:
            return
        if seen is None:
            if mark is not None:
                raise self._forgets(mark)
            return
        self._require_same_key(table)
        last, done = self.checkpoint.last, mark.batch if mark is not None and mark.query == query else -1
        if seen != mark and not (seen.query == query and last is not None and done <= seen.batch <= last):
            raise StreamRefused(
                f"{table.name} has the keys up to batch {seen.batch} of query {seen.query}, which is not what "
                f"{self.stream.writes.name} and the checkpoint {self.checkpoint.path} have: events would pass for "
                "processed ones, or their repeats for new ones",
                unchanged=_UNCHANGED,
                next_step=f"restore all three, or drop {table.name} and {self.stream.writes.name} and remove the "
                "checkpoint to read the source again",
            )

    def _require_same_key(self, table: Table) -> None:
        rows = self.runtime.stores.of(table).read(self.session, table, None)
        if (found := set(rows.columns) - FRAMEWORK_COLUMNS) != set(table.key):
            raise StreamRefused(
                f"{table.name} holds keys of {', '.join(sorted(found))}, but the stream distinguishes events by "
                f"{', '.join(table.key)}",
                unchanged=_UNCHANGED,
                next_step="keep the key, or write a new table",
            )

    def _forgets(self, mark: StreamMark) -> StreamRefused:
        level, name = type(self.stream.dedup).__name__, self.stream.writes.name
        return StreamRefused(
            f"{name} has the batches up to {mark.batch}, which were written at another level: {level} remembers none "
            "of their keys, and would write repeats of them again",
            unchanged=_UNCHANGED,
            next_step=f"declare Write(…), which looks for keys in {name}, or write a new table",
        )

    def _resume(self, mark: StreamMark | None, seen: StreamMark | None, aside: str) -> None:
        """Make a checkpoint that continues with what the table holds."""
        stream, streams = self.stream, self.runtime.ledger.streams
        if mark is None:
            raise StreamRefused(
                f"{stream.writes.name} holds no batch of a stream that could be continued",
                unchanged=_UNCHANGED,
                next_step="leave --resume-from-table out",
            )
        if isinstance(stream.dedup, Windowed):
            raise StreamRefused(
                f"stream {stream.name} remembers its keys in the checkpoint: without it repeats pass for new events",
                unchanged=_UNCHANGED,
                next_step="restore the checkpoint from a backup, or declare Write(…), which looks into the table",
            )
        if stream.seen is not None:
            if seen is None:
                raise self._forgets(mark)
            self._require_same_key(stream.seen)
            if seen != mark:
                raise StreamRefused(
                    f"{stream.seen.name} has the keys of batch {seen.batch}, whose rows are not in "
                    f"{stream.writes.name}: a new checkpoint would leave these events out",
                    unchanged=_UNCHANGED,
                    next_step=f"put the checkpoint of query {seen.query} back and run it: it completes the batch",
                )
        known = streams.find(stream.pipeline, stream.name)
        same = known is not None and is_same(known.source, self.source) and mark.stream == stream.full_name
        recorded = streams.batches.find(stream.pipeline, stream.name, mark.query, mark.batch)
        self.checkpoint.set_aside(aside)
        if same and recorded is not None and has_own_offsets(self.runtime, stream):
            # Later batches are read again, under their numbers and perhaps with other offsets.
            streams.batches.forget(stream.pipeline, stream.name, mark.query, after=mark.batch)
            self.checkpoint.begin(mark.query, (mark.batch, recorded.offsets))
        # Else the source is read from its beginning, under a new id: the table knows the keys.

    def _refused(self, what: str) -> StreamRefused:
        return StreamRefused(
            what,
            unchanged=_UNCHANGED,
            next_step="put the right checkpoint in its place, or continue from what the table holds: "
            f"twice stream run {self.stream.pipeline} {self.stream.name} --resume-from-table",
        )
