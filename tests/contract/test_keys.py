"""Merge and InsertOnly, on every store that can: one row per business key."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from twice import Day, InsertOnly, Merge
from twice.errors import KeyViolation, MergeRefused

pytestmark = [pytest.mark.spark, pytest.mark.in_scenarios, pytest.mark.needs("merge")]

MON, TUE, WED = "2026-04-20", "2026-04-21", "2026-04-22"


def at(hour: int, day: int = 20) -> datetime:
    return datetime(2026, 4, day, hour, tzinfo=timezone.utc)


@pytest.fixture
def merging(tables):
    """A current-state table that is fed by day."""
    return tables.feed(tables.table(key=["id"], write=Merge(version="u")), "id bigint, n int, u timestamp")


def test_s12_a_merge_updates_inserts_and_keeps_the_newest(tables, merging):
    merging.put(MON, (1, 1, at(10)), (2, 1, at(10)))
    merging.put(TUE, (1, 2, at(9, 21)), (3, 1, at(9, 21)))
    tables.run(merging, MON)
    step = tables.run(merging, TUE)
    assert (step.details["new"], step.details["newer"]) == (1, 1)
    assert tables.rows("id", "n") == [(1, 2), (2, 1), (3, 1)]
    # The same again, and the older day after the newer one, bring nothing back (S12, S14).
    tables.again(merging, TUE)
    tables.again(merging, MON)
    # A corrected rerun of the same window replaces what that window wrote (S12).
    merging.put(TUE, (1, 7, at(9, 21)), (3, 1, at(9, 21)))
    assert tables.run(merging, TUE).details["corrected"] == 1
    # Of several rows for one key the newest wins: also of the two images of a change (S13, S18).
    merging.put(WED, (2, 4, at(11, 22)), (2, 5, at(12, 22)), (2, 4, at(11, 22)))
    tables.run(merging, WED)
    assert tables.rows("id", "n") == [(1, 7), (2, 5), (3, 1)]
    tables.again(merging, WED)


def test_s13_what_no_version_decides_is_refused_by_key(tables, merging):
    merging.put(MON, (7, 1, at(10)))
    tables.run(merging, MON)

    def refused(kind: type[Exception], *rows: tuple[object, ...]) -> str:
        merging.put(TUE, *rows)
        with tables.untouched(), pytest.raises(kind) as stopped:
            tables.run(merging, TUE)
        return str(stopped.value)

    said = refused(MergeRefused, (8, 1, at(10, 21)), (8, 2, at(10, 21)))
    assert "several rows for one key with equal u and different content" in said
    assert "id=8" in said
    said = refused(MergeRefused, (7, 2, at(10)))
    assert "the same u as the table but different content, and another window wrote them" in said
    assert "id=7" in refused(MergeRefused, (7, 3, None))
    # A null is no key (S15).
    assert "null in the business key (id)" in refused(KeyViolation, (None, 3, at(11, 21)))


def test_s18_a_deleted_row_comes_back_and_the_after_image_wins(tables):
    contract = {"key": ["id"], "write": Merge(version="u", tombstone="gone")}
    feed = tables.feed(tables.table(**contract), "id bigint, n int, gone boolean, u timestamp")
    # A soft delete keeps the row with its mark, so that an older version cannot bring it back;
    feed.put(MON, (1, 1, False, at(9)), (1, 1, True, at(10)), (2, 1, False, at(9)))
    tables.run(feed, MON)
    assert [(number, bool(gone)) for number, gone in tables.rows("id", "gone")] == [(1, True), (2, False)]
    feed.put(TUE, (1, 1, False, at(9)))
    tables.again(feed, TUE)
    # it comes back by a newer version without the mark.
    feed.put(TUE, (1, 5, False, at(8, 21)))
    tables.run(feed, TUE)
    assert [(number, n, bool(gone)) for number, n, gone in tables.rows("id", "n", "gone")] == [
        (1, 5, False),
        (2, 1, False),
    ]
    # A change that comes as a before and an after image with one key: the after image is newer, and wins.
    feed.put(WED, (2, 1, True, at(8, 22)), (2, 6, False, at(9, 22)))
    tables.run(feed, WED)
    assert tables.rows("id", "n") == [(1, 5), (2, 6)]
    tables.again(feed, WED)


def test_s18_an_id_that_is_used_again_is_another_row_where_its_validity_is_in_the_key(tables):
    table = tables.table(key=["id", "since"], write=Merge(version="u", tombstone="gone"))
    feed = tables.feed(table, "id bigint, since timestamp, n int, gone boolean, u timestamp")
    feed.put(MON, (1, at(1), 1, False, at(9)))
    feed.put(TUE, (1, at(1), 1, True, at(9, 21)), (1, at(10, 21), 2, False, at(10, 21)))
    tables.run(feed, MON)
    tables.run(feed, TUE)
    assert [(n, bool(gone)) for n, gone in tables.rows("n", "gone")] == [(1, True), (2, False)]
    tables.again(feed, TUE)


def test_s18_an_id_that_is_used_again_is_refused_where_only_the_id_is_the_key(tables):
    table = tables.table(key=["id"], write=Merge(version="u", tombstone="gone", created="since"))
    feed = tables.feed(table, "id bigint, since timestamp, n int, gone boolean, u timestamp")
    feed.put(MON, (1, at(1), 1, True, at(9)), (2, at(1), 1, True, at(9)))
    tables.run(feed, MON)
    # The same thing comes back: it is as old as it was.
    feed.put(TUE, (2, at(1), 5, False, at(8, 21)))
    tables.run(feed, TUE)
    # Another thing was made after the first one was deleted.
    feed.put(WED, (1, at(8, 22), 7, False, at(9, 22)))
    with tables.untouched(), pytest.raises(MergeRefused) as stopped:
        tables.run(feed, WED)
    said = str(stopped.value)
    assert "whose since is later than the deletion of their key" in said
    assert "id=1" in said
    assert "make since part of the key" in said
    # Both in one delivery.
    feed.put(WED, (3, at(1), 1, True, at(8, 22)), (3, at(9, 22), 2, False, at(9, 22)))
    with tables.untouched(), pytest.raises(MergeRefused, match="id=3"):
        tables.run(feed, WED)
    assert tables.rows("id", "n") == [(1, 1), (2, 5)]


def test_a_key_is_inserted_once(tables):
    table = tables.table(partition=Day("d"), key=["id"], write=InsertOnly())
    feed = tables.feed(table, "id bigint, n int, d date")
    feed.put(MON, (1, 1), (2, 1))
    tables.run(feed, MON)
    # Equal content again is skipped, new keys are added, what is no longer delivered stays.
    feed.put(MON, (2, 1), (3, 1))
    step = tables.run(feed, MON)
    assert (step.status, step.details["new"], step.details["same"]) == ("published", 1, 1)
    assert tables.rows("id", "n") == [(1, 1), (2, 1), (3, 1)]
    tables.again(feed, MON)
    # Other content for a known key stops the run,
    feed.put(MON, (2, 9), (4, 1))
    with tables.untouched(), pytest.raises(MergeRefused) as refused:
        tables.run(feed, MON)
    assert "1 key are in the table with different content" in str(refused.value)
    assert "id=2" in str(refused.value)
    # or is left out and counted, where the table says so.
    keeping = tables.feed(
        tables.table(partition=Day("d"), key=["id"], write=InsertOnly(on_conflict="keep")), "id bigint, n int, d date"
    )
    keeping.put(MON, (2, 9), (4, 1))
    assert tables.run(keeping, MON).details["disputed"] == 1
    assert tables.rows("id", "n") == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_s44_a_merged_row_that_was_touched_by_hand_is_repaired(tables, merging):
    merging.put(MON, (1, 1, at(10)), (2, 2, at(10)))
    tables.run(merging, MON)

    tables.place.edit("t", 1, n=99)
    tables.place.delete("t", 2)
    assert tables.run(merging, MON, skip_fresh=True).status == "published"

    assert tables.rows("id", "n") == [(1, 1), (2, 2)]
