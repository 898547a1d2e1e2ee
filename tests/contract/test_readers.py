"""S07: an application reads a mart fifty times a second while its day is replaced again and again."""

from __future__ import annotations

import itertools
import threading
import time

import pytest
import sqlalchemy as sa

from tests.support import stores
from tests.support.processes import until
from twice import Day, Overwrite

# A table of files is read at a version: the crash matrix has its readers.
pytestmark = [pytest.mark.spark, pytest.mark.needs("outside_readers")]

DAY, NEXT = "2026-04-20", "2026-04-21"
REPLACES = {"postgres": 20, "sqlite": 5, "own": 5}
RATE = 50.0


class Application:
    """Somebody who asks for the day at a steady rate, on one connection, as an application does."""

    def __init__(self, place: stores.Sql) -> None:
        named = place.own_name("t") if isinstance(place, stores.Own) else "t"
        table = sa.table(named, sa.column("n"), schema=place.schema)
        self._query = sa.select(sa.func.count(), sa.func.sum(table.c.n))
        self._place, self._stop, self.seen, self.failed = place, threading.Event(), [], []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join(30)

    def until(self, look: tuple[int, int]) -> None:
        """Wait until the application has seen a version."""
        until(lambda: self.failed or look in self.seen[-1:])

    def _read(self) -> None:
        try:
            with self._place.engine.connect() as connection:
                for number in itertools.count():
                    start = time.monotonic()
                    count, total = connection.execute(self._query).one()
                    connection.rollback()
                    self.seen.append((count, int(total or 0)))
                    if self._stop.wait(max(0.0, 1 / RATE - (time.monotonic() - start))) and number:
                        return
        except Exception as error:
            self.failed.append(error)


def test_s07_readers_never_see_the_day_missing_or_mixed(tables):
    # Given a mart of two days, of which one is replaced many times: as a whole, or but for a few rows,
    table = tables.table(partition=Day("d"), key=["id"], write=Overwrite())
    feed = tables.feed(table, "id bigint, n int, d date")
    feed.put(NEXT, *((1000 + row, 1) for row in range(50)))
    numbers = [1] * 200
    feed.put(DAY, *enumerate(numbers))
    tables.run(feed, from_=DAY, to="2026-04-22")
    versions = [(250, 250)]

    with Application(tables.place) as application:
        for replace in range(1, REPLACES[tables.place.kind] + 1):
            few = replace % 3 == 0
            numbers = [n + (replace if not few or row == replace else 0) for row, n in enumerate(numbers)]
            feed.put(DAY, *enumerate(numbers))
            assert tables.run(feed, DAY).status == "published"
            versions.append((250, 50 + sum(numbers)))
            application.until(versions[-1])

    # then whoever reads sees one version after the other, whole, and nothing in between.
    assert application.failed == []
    story = [look for look, _ in itertools.groupby(application.seen)]
    assert story == versions
