"""The promise below the engine, on every store: fences hold, tokens are found again, others are not overwritten."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite
from twice.errors import Conflict, LeaseLost

pytestmark = [pytest.mark.spark, pytest.mark.every_store]

MON, TUE, WED = "2026-04-20", "2026-04-21", "2026-04-22"


@pytest.fixture
def daily(tables):
    """A table by day, with one day that token 1 published."""
    feed = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), "id bigint, n int, d date")
    store, staged, target = tables.opened(feed, MON, 1, (1, 1), (2, 1))
    feed.first = store.publish(tables.lab.spark, staged, target.partitions, {"twice.run": "r1"}, {})
    return feed


def test_a_published_token_is_found_again_after_its_answer_was_lost(tables, daily):
    spark, store = tables.lab.spark, tables.store(daily.table)
    # Whoever asks for the token, now or after others have published, hears which version it made.
    assert store.version(spark, daily.table) == daily.first
    assert store.fence(spark, daily.table, 1) == daily.first
    _, staged, target = tables.opened(daily, TUE, 2, (3, 1))
    assert store.token(spark, daily.table) >= 1
    second = store.publish(spark, staged, target.partitions, {"twice.run": "r2"}, {"mark": "m"})
    assert second not in (None, daily.first)
    assert store.fence(spark, daily.table, 1) == daily.first
    assert store.fence(spark, daily.table, 2) == second
    assert store.fence(spark, daily.table, 7) is None
    assert store.token(spark, daily.table) >= 2
    assert store.remembered(spark, daily.table, "mark") == "m"
    assert tables.rows("id", "n") == [(1, 1), (2, 1), (3, 1)]
    assert tables.place.leftovers("t") == []


def test_s45_a_fenced_stage_cannot_publish_although_nothing_has_changed(tables, daily):
    spark = tables.lab.spark
    store, staged, target = tables.opened(daily, MON, 5, (1, 9), (2, 9))
    assert list(store.staged_tokens(spark, daily.table)) == [5]
    assert tables.rows("id", "n") == [(1, 1), (2, 1)]
    # Somebody takes over, finds nothing to change, and goes;
    assert store.fence(spark, daily.table, 5) is None
    store, idle, _ = tables.opened(daily, MON, 6, (1, 1), (2, 1))
    store.discard(spark, idle, {"mark": "seen"})
    # the first wakes up.
    with pytest.raises(LeaseLost):
        store.publish(spark, staged, target.partitions, {}, {})
    with pytest.raises(LeaseLost):
        store.discard(spark, staged, {})
    assert tables.rows("id", "n") == [(1, 1), (2, 1)]
    assert store.version(spark, daily.table) == daily.first
    assert store.remembered(spark, daily.table, "mark") == "seen"
    assert list(store.staged_tokens(spark, daily.table)) == []
    assert tables.place.leftovers("t") == []


@pytest.mark.parametrize("how", ["publish", "discard"])
def test_what_somebody_else_wrote_meanwhile_is_not_written_over(tables, daily, how):
    spark = tables.lab.spark
    store, staged, target = tables.opened(daily, MON, 3, (1, 5))
    tables.place.edit("t", 2, n=77)
    end = {
        "publish": lambda: store.publish(spark, staged, target.partitions, {}, {}),
        "discard": lambda: store.discard(spark, staged, {}),
    }[how]
    with pytest.raises(Conflict):
        end()
    assert tables.rows("id", "n") == [(1, 1), (2, 77)]
    store.fence(spark, daily.table, 3)
    assert tables.place.leftovers("t") == []


@pytest.mark.needs("side_by_side")
def test_two_disjoint_scopes_publish_side_by_side(tables, daily):
    spark = tables.lab.spark
    store, one, first = tables.opened(daily, TUE, 8, (3, 1))
    _, two, second = tables.opened(daily, WED, 9, (4, 1))
    # Opened in one order, published in the other; neither is in the other's way.
    later = store.publish(spark, two, second.partitions, {}, {})
    store.publish(spark, one, first.partitions, {}, {})
    assert tables.rows("id", "n") == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert store.fence(spark, daily.table, 9) == later
    assert tables.place.leftovers("t") == []
