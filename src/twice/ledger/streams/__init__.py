"""Streams: how each ran last, and the offsets and counts of every batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.db.clock import Clock
from twice.ledger.db.conditions import equal
from twice.ledger.db.database import Database, insert_missing
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import streams
from twice.ledger.streams.batches import Batches
from twice.ledger.streams.infos import StreamInfo


class Streams(LedgerPart):
    """The part of the ledger that follows streams, with their batches."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self.batches = Batches(database, clock)

    def start(self, info: Mapping[str, object]) -> None:
        """Record that a run of a stream has begun; `info` has the columns of a stream."""
        named = {name: info[name] for name in ("pipeline", "stream")}
        with self._write() as connection:
            row = {**info, "stop": False, "changed_at": self._now(connection)}
            insert_missing(connection, streams, [row])
            connection.execute(sa.update(streams).where(*equal(streams, named)).values(**row))

    def find(self, pipeline: str, stream: str) -> StreamInfo | None:
        """Return a stream as it ran last; None if it never ran."""
        return next(iter(self.list(pipeline, stream)), None)

    def readers(self, table: str) -> list[StreamInfo]:
        """List the streams that read a table."""
        return [info for info in self.list() if info.source_table == table]

    def ask_to_stop(self, pipeline: str, stream: str) -> None:
        """Ask the process that runs a stream to end after its batch."""
        with self._write() as connection:
            mine = equal(streams, {"pipeline": pipeline, "stream": stream})
            if not connection.execute(sa.update(streams).where(*mine).values(stop=True)).rowcount:
                raise UsageError(f"the stream {pipeline}.{stream} has never run", unchanged="nothing was changed")

    def list(self, pipeline: str | None = None, stream: str | None = None) -> list[StreamInfo]:
        """List the streams that ever ran."""
        query = sa.select(streams)
        if pipeline is not None:
            query = query.where(streams.c.pipeline == pipeline)
        if stream is not None:
            query = query.where(streams.c.stream == stream)
        with self._read() as connection:
            rows = connection.execute(query.order_by(streams.c.pipeline, streams.c.stream)).mappings().all()
        return [_info(row) for row in rows]


def _info(row: Any) -> StreamInfo:
    known = {name: value for name, value in row.items() if name not in ("id", "table_name")}
    return StreamInfo(table=row["table_name"], **known)
