"""Rows into Postgres by COPY, through one connection, or through two where there is enough to load.

COPY keeps one core of the server busy per connection, and turning rows into CSV one of the driver's: two lanes, each
with partitions and a connection of its own, keep both sides busy. Small loads do not pay for a second connection. The
lanes are transactions of their own, into a staging table that no query reads before both have succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from itertools import count
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread

from twice.failpoints import fail_point

if TYPE_CHECKING:
    from twice.store.sql.database import Database

# A part is the rows of one partition: fetched when it is its turn, as (number of rows, bytes).
Part = Callable[[], Iterable[tuple[int, Any]]]


class _Stopped(Exception):
    """The load failed elsewhere: this lane rolls back what it has sent."""


def copy(database: Database, statement: str, parts: Iterable[Part], lanes: int) -> tuple[int, int]:
    """Send parts to a COPY statement; return how many rows were given, and how many the server took."""
    load = _Load(database, statement, list(parts))
    running = [load.start() for _ in range(lanes)]
    try:
        wait(running, return_when=FIRST_EXCEPTION)
        for lane in running:
            if lane.done() and (error := lane.exception()) is not None:
                raise error
        ended = [lane.result() for lane in running]
    finally:
        load.stopped = True
        wait(running)
    return sum(given for given, _ in ended), sum(taken for _, taken in ended)


class _Load:
    """The parts of one load, handed out to the lanes in turn."""

    def __init__(self, database: Database, statement: str, parts: list[Part]) -> None:
        self.database, self.statement, self.parts = database, statement, parts
        self.stopped = False
        self._turn = count()

    def start(self) -> Future[tuple[int, int]]:
        """Open a lane in a thread of its own; its Spark jobs belong to the caller's group and pool."""
        ended: Future[tuple[int, int]] = Future()

        def run() -> None:
            try:
                ended.set_result(self._lane())
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                ended.set_exception(error)

        InheritableThread(target=run, name="twice-copy", daemon=True).start()
        return ended

    def _lane(self) -> tuple[int, int]:
        given = 0
        with self.database.settled() as connection:
            # The instants in the rows are UTC times without a zone.
            self.database.run(connection, "SET LOCAL TimeZone = 'UTC'")
            driver: Any = connection.connection.driver_connection
            with driver.cursor() as cursor:
                with cursor.copy(self.statement) as sink:
                    for rows, chunk in self._chunks():
                        sink.write(chunk)
                        given += rows
                taken = int(cursor.rowcount)
            fail_point("sql.loaded")
        return given, taken

    def _chunks(self) -> Iterator[tuple[int, Any]]:
        while (number := next(self._turn)) < len(self.parts):
            for rows, chunk in self.parts[number]():
                if self.stopped:
                    raise _Stopped
                yield rows, chunk
