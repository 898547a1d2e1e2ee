"""What a run leaves that changed nothing, or was refused: on every store no row, file, snapshot or table."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite, gates
from twice.errors import GateFailed

pytestmark = [pytest.mark.spark, pytest.mark.every_store]

MON, TUE = "2026-04-20", "2026-04-21"
COLUMNS = "id bigint, n int, d date"


def test_an_attempt_that_is_refused_or_changes_nothing_leaves_nothing(tables):
    limit = gates.row_count(max=2)
    table = tables.table(partition=Day("d"), key=["id"], write=Overwrite(), gates=[limit])
    feed = tables.feed(table, COLUMNS)

    def refused() -> None:
        feed.put(MON, (1, 1), (2, 2), (3, 3))
        with pytest.raises(GateFailed):
            tables.run(feed, MON)
        feed.put(MON, (1, 1), (2, 2))

    # Given a first attempt that a gate refuses: there is no table, but for Delta, which cannot drop it safely
    before = tables.place.everything()
    refused()
    if tables.place.kind != "delta":
        assert tables.place.everything() == before
        assert not tables.store(table).exists(tables.lab.spark, table)
    # And a good one: the table is there
    assert tables.run(feed, MON).status == "published"
    before = tables.place.everything()
    # When it runs again with the same rows, nothing is added
    assert tables.run(feed, MON).status == "unchanged"
    assert tables.place.everything() == before
    # And when it is refused again, neither
    refused()
    assert tables.place.everything() == before
    assert tables.rows("id") == [(1,), (2,)]


def test_a_first_attempt_that_gives_up_leaves_the_table_to_another_one_that_is_at_work(tables):
    spark = tables.lab.spark
    feed = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), COLUMNS)
    # Given two first attempts at work on two days
    store, one, first = tables.opened(feed, MON, 1, (1, 1))
    tables.opened(feed, TUE, 2, (2, 2))
    # When one of them gives up, the other one still publishes
    assert store.fence(spark, feed.table, 2, own=True) is None
    store.publish(spark, one, first.partitions, {}, {})
    assert tables.rows("id") == [(1,)]
    assert tables.place.leftovers("t") == []
