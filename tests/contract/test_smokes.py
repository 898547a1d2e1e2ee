"""A pipeline end to end, in few runs: each write pattern published, rerun and corrected.

`make test` runs a day on every store and the other write patterns on Iceberg; the verbs that they use are in
`test_verbs` on every store.
"""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from twice import Day, InsertOnly, Merge, Overwrite, Whole

pytestmark = pytest.mark.spark

MON, TUE = "2026-04-20", "2026-04-21"


def at(day: int) -> datetime:
    return datetime(2026, 4, day, tzinfo=timezone.utc)


@pytest.mark.every_store
def test_s02_a_day_is_published_rerun_corrected_and_emptied(tables):
    table = tables.table(partition=Day("d"), key=["id"], write=Overwrite())
    feed = tables.feed(table, "id bigint, n int, d date")
    feed.put(MON, (1, 1), (2, 1))
    feed.put(TUE, (3, 1))
    assert tables.run(feed, from_=MON, to="2026-04-22").status == "published"
    tables.again(feed, MON)
    feed.put(MON, (2, 5))
    assert tables.run(feed, MON).status == "published"
    assert tables.rows("id", "n") == [(2, 5), (3, 1)]
    feed.put(MON)
    assert tables.run(feed, MON).status == "published"
    assert tables.rows("id", "n") == [(3, 1)]


def test_s09_a_whole_table_is_published_rerun_and_replaced(tables):
    feed = tables.feed(tables.table(key=["id"], write=Whole()), "id bigint, n int")
    feed.put(MON, (1, 1), (2, 2))
    assert tables.run(feed, MON).status == "published"
    tables.again(feed, MON)
    feed.put(TUE, (3, 3))
    assert tables.run(feed, TUE).status == "published"
    assert tables.rows("id", "n") == [(3, 3)]


@pytest.mark.needs("merge")
def test_s12_a_merge_is_published_rerun_and_not_turned_back_by_an_older_day(tables):
    feed = tables.feed(tables.table(key=["id"], write=Merge(version="u")), "id bigint, n int, u timestamp")
    feed.put(MON, (1, 1, at(20)), (2, 1, at(20)))
    feed.put(TUE, (1, 2, at(21)), (3, 1, at(21)))
    assert tables.run(feed, TUE).status == "published"
    assert tables.run(feed, MON).status == "published"
    assert tables.rows("id", "n") == [(1, 2), (2, 1), (3, 1)]
    tables.again(feed, MON)


@pytest.mark.needs("merge")
def test_s15_a_key_is_inserted_once(tables):
    table = tables.table(partition=Day("d"), key=["id"], write=InsertOnly())
    feed = tables.feed(table, "id bigint, n int, d date")
    feed.put(MON, (1, 1))
    assert tables.run(feed, MON).status == "published"
    feed.put(MON, (1, 1), (2, 1))
    assert tables.run(feed, MON).details["new"] == 1
    assert tables.rows("id", "n") == [(1, 1), (2, 1)]
    tables.again(feed, MON)
