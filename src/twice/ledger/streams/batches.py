"""Batches of streams: their offsets and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from twice.ledger.db.conditions import equal
from twice.ledger.db.database import insert_missing
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import stream_batches
from twice.ledger.runs.rows import saw
from twice.ledger.streams.infos import StreamInfo


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


class Batches(LedgerPart):
    """The part of the ledger that follows the batches of streams."""

    def start(self, info: StreamInfo, batch: int, offsets: str) -> BatchInfo:
        """Record the offsets of a batch before it is processed; a repeated batch keeps what is known of it."""
        named = {"pipeline": info.pipeline, "stream": info.stream, "query": info.query, "batch": batch}
        with self._write() as connection:
            now = self._now(connection)
            row = {**named, "run": info.run, "offsets": offsets, "started_at": now}
            insert_missing(connection, stream_batches, [row])
            mine = equal(stream_batches, named)
            # What a batch read that is in the table stays known.
            open_ = stream_batches.c.ended_at.is_(None)
            connection.execute(sa.update(stream_batches).where(*mine, open_).values(offsets=offsets, run=info.run))
            saw(connection, info.run, now)
            found = connection.execute(sa.select(stream_batches).where(*mine)).mappings().one()
        return _batch(found)

    def note(
        self, batch: BatchInfo, counts: Mapping[str, object], *, ended: bool = False, replayed: bool = False
    ) -> None:
        """Record the results of a batch: any of its counts, and whether it is in the table."""
        named = {name: getattr(batch, name) for name in ("pipeline", "stream", "query", "batch")}
        with self._write() as connection:
            now = self._now(connection)
            values = {**counts, **({"ended_at": now} if ended else {}), **({"replayed_at": now} if replayed else {})}
            connection.execute(sa.update(stream_batches).where(*equal(stream_batches, named)).values(**values))

    def forget(self, pipeline: str, stream: str, query: str, *, after: int) -> None:
        """Remove what is known of the batches after one: the table does not have them any more."""
        named = equal(stream_batches, {"pipeline": pipeline, "stream": stream, "query": query})
        with self._write() as connection:
            connection.execute(sa.delete(stream_batches).where(*named, stream_batches.c.batch > after))

    def find(self, pipeline: str, stream: str, query: str, number: int) -> BatchInfo | None:
        """Return one batch; None if it is not known."""
        found = self.list(pipeline, stream, query=query, numbers=(number, number + 1))
        return found[0] if found else None

    def list(
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


def _batch(row: Any) -> BatchInfo:
    return BatchInfo(**{name: value for name, value in row.items() if name != "id"})
