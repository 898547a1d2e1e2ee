"""Streams in the ledger: how each ran last, and the offsets and counts of every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.db.database import insert_missing
from twice.ledger.db.part import LedgerPart, saw
from twice.ledger.db.schema import stream_batches, streams


@dataclass(frozen=True)
class StreamInfo:
    """A stream as it ran last."""

    pipeline: str
    stream: str
    table: str
    source: str
    source_table: str
    query: str
    checkpoint: str
    run: str
    stop: bool
    changed_at: datetime

    def to_json(self) -> dict[str, object]:
        """Return the stream as JSON scalars."""
        return dict(self.__dict__) | {"changed_at": self.changed_at.isoformat()}


@dataclass(frozen=True)
class BatchInfo:
    """One batch: what it read, as Spark's offsets, and how many rows came of it. `ended_at`: it is in the table."""

    pipeline: str
    stream: str
    query: str
    batch: int
    run: str
    offsets: str
    version: str | None
    rows_in: int | None
    rows_out: int | None
    duplicates: int | None
    late: int | None
    state_rows: int | None
    started_at: datetime
    ended_at: datetime | None
    replayed_at: datetime | None

    def to_json(self) -> dict[str, object]:
        """Return the batch as JSON scalars, without its offsets."""
        shown = {name: value for name, value in self.__dict__.items() if name != "offsets"}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in shown.items()}


class Streams(LedgerPart):
    """The part of the ledger that knows streams."""

    def begin(self, info: Mapping[str, object]) -> None:
        """Write that a run of a stream has begun; `info` has the columns of a stream."""
        named = {name: info[name] for name in ("pipeline", "stream")}
        with self._write() as connection:
            row = {**info, "stop": False, "changed_at": self._now(connection)}
            insert_missing(connection, streams, [row])
            connection.execute(sa.update(streams).where(*_equal(streams, named)).values(**row))

    def find(self, pipeline: str, stream: str) -> StreamInfo | None:
        """Return a stream as it ran last; None if it never ran."""
        return next(iter(self.infos(pipeline, stream)), None)

    def infos(self, pipeline: str | None = None, stream: str | None = None) -> list[StreamInfo]:
        """List the streams that ever ran."""
        query = sa.select(streams)
        if pipeline is not None:
            query = query.where(streams.c.pipeline == pipeline)
        if stream is not None:
            query = query.where(streams.c.stream == stream)
        with self._read() as connection:
            rows = connection.execute(query.order_by(streams.c.pipeline, streams.c.stream)).mappings().all()
        return [_info(row) for row in rows]

    def readers(self, table: str) -> list[StreamInfo]:
        """List the streams that read a table."""
        return [info for info in self.infos() if info.source_table == table]

    def ask_to_stop(self, pipeline: str, stream: str) -> None:
        """Ask the process that runs a stream to end after its batch."""
        with self._write() as connection:
            mine = _equal(streams, {"pipeline": pipeline, "stream": stream})
            if not connection.execute(sa.update(streams).where(*mine).values(stop=True)).rowcount:
                raise UsageError(f"the stream {pipeline}.{stream} has never run", unchanged="nothing was changed")

    def start_batch(self, info: StreamInfo, batch: int, offsets: str) -> BatchInfo:
        """Write down the offsets of a batch before it is processed; a repeated batch keeps what is known of it."""
        named = {"pipeline": info.pipeline, "stream": info.stream, "query": info.query, "batch": batch}
        with self._write() as connection:
            now = self._now(connection)
            row = {**named, "run": info.run, "offsets": offsets, "started_at": now}
            insert_missing(connection, stream_batches, [row])
            mine = _equal(stream_batches, named)
            # What a batch read that is in the table stays known.
            open_ = stream_batches.c.ended_at.is_(None)
            connection.execute(sa.update(stream_batches).where(*mine, open_).values(offsets=offsets, run=info.run))
            saw(connection, info.run, now)
            found = connection.execute(sa.select(stream_batches).where(*mine)).mappings().one()
        return _batch(found)

    def note(
        self, batch: BatchInfo, counts: Mapping[str, object], *, ended: bool = False, replayed: bool = False
    ) -> None:
        """Write what came of a batch: any of its counts, and whether it is in the table."""
        named = {name: getattr(batch, name) for name in ("pipeline", "stream", "query", "batch")}
        with self._write() as connection:
            now = self._now(connection)
            values = {**counts, **({"ended_at": now} if ended else {}), **({"replayed_at": now} if replayed else {})}
            connection.execute(sa.update(stream_batches).where(*_equal(stream_batches, named)).values(**values))

    def forget(self, pipeline: str, stream: str, query: str, *, after: int) -> None:
        """Remove what is known of the batches after one: the table does not have them any more."""
        named = _equal(stream_batches, {"pipeline": pipeline, "stream": stream, "query": query})
        with self._write() as connection:
            connection.execute(sa.delete(stream_batches).where(*named, stream_batches.c.batch > after))

    def batches(
        self,
        pipeline: str,
        stream: str,
        *,
        query: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        numbers: tuple[int, int] | None = None,
        limit: int | None = None,
    ) -> list[BatchInfo]:
        """List batches, the newest first; `numbers` is a half-open range of batch numbers."""
        c = stream_batches.c
        found = sa.select(stream_batches).where(c.pipeline == pipeline, c.stream == stream)
        if query is not None:
            found = found.where(c.query == query)
        if since is not None:
            found = found.where(c.started_at >= since)
        if until is not None:
            found = found.where(c.started_at < until)
        if numbers is not None:
            found = found.where(c.batch >= numbers[0], c.batch < numbers[1])
        with self._read() as connection:
            rows = connection.execute(found.order_by(c.started_at.desc(), c.batch.desc()).limit(limit)).mappings().all()
        return [_batch(row) for row in rows]

    def batch(self, pipeline: str, stream: str, query: str, number: int) -> BatchInfo | None:
        """Return one batch."""
        found = self.batches(pipeline, stream, query=query, numbers=(number, number + 1))
        return found[0] if found else None


def _equal(table: sa.Table, values: Mapping[str, object]) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == value for name, value in values.items()]


def _info(row: Any) -> StreamInfo:
    known = {name: value for name, value in row.items() if name not in ("id", "table_name")}
    return StreamInfo(table=row["table_name"], **known)


def _batch(row: Any) -> BatchInfo:
    return BatchInfo(**{name: value for name, value in row.items() if name != "id"})
