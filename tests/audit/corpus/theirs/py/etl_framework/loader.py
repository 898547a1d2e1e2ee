"""A small ETL framework: each source is a class, the loader replaces its slice."""
from __future__ import annotations

import abc
import contextlib
import dataclasses
import datetime as dt
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
from psycopg import sql

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Slice:
    table: str
    column: str
    value: Any


class Source(abc.ABC):
    table: str
    slice_column: str = "business_day"

    @abc.abstractmethod
    def rows(self, day: dt.date) -> Iterable[dict[str, Any]]: ...


class Loader:
    def __init__(self, dsn: str, *, attempts: int = 3) -> None:
        self.dsn = dsn
        self.attempts = attempts

    @contextlib.contextmanager
    def _tx(self) -> Iterator[psycopg.Cursor]:
        with psycopg.connect(self.dsn) as conn:
            with conn.transaction(), conn.cursor() as cur:
                yield cur

    def _remove(self, cur: psycopg.Cursor, part: Slice) -> None:
        cur.execute(
            sql.SQL("DELETE FROM {} WHERE {} = %s").format(sql.Identifier(*part.table.split(".")), sql.Identifier(part.column)),
            (part.value,),
        )
        logger.info("removed %d rows", cur.rowcount)

    def _insert(self, cur: psycopg.Cursor, table: str, rows: list[dict[str, Any]]) -> None:
        names = list(rows[0])
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier(*table.split(".")),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(sql.Placeholder() * len(names)),
        )
        cur.executemany(statement, [tuple(r[n] for n in names) for r in rows])

    def load(self, source: Source, day: dt.date) -> int:
        rows = [{**r, source.slice_column: day} for r in source.rows(day)]
        for attempt in range(1, self.attempts + 1):
            started = time.monotonic()
            try:
                with self._tx() as cur:
                    self._remove(cur, Slice(source.table, source.slice_column, day))
                    if rows:
                        self._insert(cur, source.table, rows)
                logger.info("%s: %d rows in %.2fs", source.table, len(rows), time.monotonic() - started)
                return len(rows)
            except psycopg.OperationalError:
                logger.warning("attempt %d failed at %s", attempt, dt.datetime.now(), exc_info=True)
                if attempt == self.attempts:
                    raise
                time.sleep(2**attempt)
        return 0
