"""Every verb of the store protocol, on every store, without the engine: stage, publish, read, fingerprint, discard."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from pyspark.sql import functions as F

from tests.support.peeking import agrees, peeked
from twice import Day, InsertOnly, Merge, Overwrite, Whole
from twice.errors import SchemaRefused
from twice.model.framework import WINDOW_COLUMN

pytestmark = [pytest.mark.spark, pytest.mark.every_store]

MON, TUE, WED, THU = "2026-04-20", "2026-04-21", "2026-04-22", "2026-04-23"
SCHEMA = "id bigint, n int, d date"


@pytest.fixture
def daily(tables):
    """A table by day; nothing is in it yet."""
    return tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), SCHEMA)


def test_a_table_that_is_not_there_has_no_version_no_token_and_no_stage(tables, daily):
    spark, store = tables.lab.spark, tables.store(daily.table)
    assert not store.exists(spark, daily.table)
    assert store.version(spark, daily.table) is None
    assert store.token(spark, daily.table) == 0
    assert list(store.staged_tokens(spark, daily.table)) == []
    assert store.remembered(spark, daily.table, "mark") is None
    assert store.fence(spark, daily.table, 7) is None
    store.check(spark, daily.table)
    assert not store.exists(spark, daily.table)


def test_s04_a_publish_replaces_its_day_and_leaves_the_others_as_they_are(tables, daily):
    spark, store = tables.lab.spark, tables.store(daily.table)
    tables.published(daily, MON, 1, (1, 1), (2, 1))
    second = tables.published(daily, TUE, 2, (3, 1))
    neighbour = tables.target(daily, MON)
    before = store.files(spark, neighbour, second)
    third = tables.published(daily, TUE, 3, (3, 2), (4, 2))
    assert tables.rows("id", "n") == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert store.files(spark, neighbour, third) == before
    assert third not in (None, second)


def test_s06_an_empty_result_empties_its_day(tables, daily):
    tables.published(daily, MON, 1, (1, 1))
    tables.published(daily, TUE, 2, (3, 1))
    tables.published(daily, MON, 3)
    assert tables.rows("id", "n") == [(3, 1)]


def test_readers_see_the_old_day_until_the_publish_and_the_staged_rows_are_the_new_one(tables, daily):
    spark = tables.lab.spark
    tables.published(daily, MON, 1, (1, 1))
    store, staged, target = tables.opened(daily, MON, 2, (1, 5), (2, 5))
    # A second batch of the same claim adds to the first.
    store.stage_more(spark, staged, spark.createDataFrame([(3, 5, datetime(2026, 4, 20).date())], SCHEMA))
    assert tables.rows("id", "n") == [(1, 1)]
    seen = store.staged(spark, staged).select("id", "n").collect()
    assert sorted(map(tuple, seen)) == [(1, 5), (2, 5), (3, 5)]
    assert staged.strays == []
    store.publish(spark, staged, target.partitions, {}, {})
    assert tables.rows("id", "n") == [(1, 5), (2, 5), (3, 5)]


def test_some_staged_partitions_are_published_and_the_others_stay(tables, daily):
    spark = tables.lab.spark
    tables.published(daily, MON, 1, (1, 1))
    tables.published(daily, TUE, 2, (2, 1))
    daily.put(TUE, (2, 7))
    store, staged, target = tables.opened(daily, MON, 3, (1, 7), to=WED)
    store.publish(spark, staged, target.partitions[1:], {}, {})
    assert tables.rows("id", "n") == [(1, 1), (2, 7)]
    assert tables.place.leftovers("t") == []


def test_s11_staged_rows_outside_the_scope_are_counted_named_and_shown(tables, daily):
    spark = tables.lab.spark
    daily.shape = lambda rows: rows.withColumn("d", F.expr("if(id = 2, date'2026-04-25', d)"))
    store, staged, _ = tables.opened(daily, MON, 1, (1, 1), (2, 1), (3, 1))
    assert [stray.rows for stray in staged.strays] == [1]
    assert "2026-04-25" in staged.strays[0].values[0]
    assert [row["id"] for row in store.stray_rows(spark, staged, 5)] == [2]
    store.discard(spark, staged, {})
    assert tables.place.leftovers("t") == []


def test_s09_a_whole_table_is_replaced(tables):
    feed = tables.feed(tables.table(key=["id"], write=Whole()), "id bigint, n int")
    tables.published(feed, MON, 1, (1, 1), (2, 1))
    tables.published(feed, TUE, 2, (2, 2))
    # A whole table's publish carries all that was delivered so far.
    feed.put(MON)
    tables.published(feed, TUE, 3, (2, 3))
    assert tables.rows("id", "n") == [(2, 3)]


def test_s10_a_tenants_day_is_replaced_beside_the_other_tenants(tables):
    table = tables.table(partition=Day("d"), dimensions=["tenant"], key=["tenant", "id"], write=Overwrite())
    feed = tables.feed(table, "id bigint, n int, tenant string, d date")
    odd = 'O\'Brien & "Söhne" %s/..'
    tables.published(feed, MON, 1, (1, 1, "acme"), (2, 1, odd))
    tables.published(feed, MON, 2, (2, 5, odd), (3, 5, odd), tenant=odd)
    assert tables.rows("id", "n") == [(1, 1), (2, 5), (3, 5)]
    tables.published(feed, MON, 3, tenant=odd)
    assert tables.rows("id", "n") == [(1, 1)]


def test_s51_a_column_is_added_and_neither_dropped_nor_retyped(tables, daily):
    spark, store = tables.lab.spark, tables.store(daily.table)
    tables.published(daily, MON, 1, (1, 1))
    daily.shape = lambda rows: rows.withColumn("more", F.lit("x"))
    tables.published(daily, TUE, 2, (2, 1))
    assert tables.rows("id", "more") == [(1, None), (2, "x")]
    live = store.read(spark, daily.table, store.version(spark, daily.table)).schema
    store.release(spark)
    without = type(live)([field for field in live.fields if field.name != "n"])
    with pytest.raises(SchemaRefused, match="n"):
        store.prepare(spark, daily.table, without)
    with pytest.raises(SchemaRefused, match="string"):
        store.prepare(spark, daily.table, type(live)(without.fields).add("n", "string"))
    with pytest.raises(SchemaRefused, match="smallint"):  # a narrower type, on every store
        store.prepare(spark, daily.table, type(live)(without.fields).add("n", "short"))


def test_s44_a_fingerprint_changes_with_the_content_and_with_nothing_else(tables, daily):
    spark, store = tables.lab.spark, tables.store(daily.table)
    first = tables.published(daily, MON, 1, (1, 1), (2, 1))
    both = tables.target(daily, MON, WED)
    before = dict(store.files(spark, both, first))
    assert list(map(bool, before.values())) == [True, False]  # a day without rows is an empty text
    tables.place.edit("t", 2, n=77)
    fresh = tables.store(daily.table)
    after = dict(fresh.files(spark, both, fresh.version(spark, daily.table)))
    assert list(after) == list(before)
    assert after[both.partitions[0]] != before[both.partitions[0]]
    assert after[both.partitions[1]] == ""


def test_what_a_store_finds_out_without_spark_is_what_spark_finds_out(tables, daily):
    spark, both = tables.lab.spark, tables.target(daily, MON, WED)
    assert peeked(spark, tables.store(daily.table), both)[0] is None
    tables.published(daily, MON, 1, (1, 1), (2, 1))
    first = agrees(spark, tables.store(daily.table), both)
    assert list(map(bool, first.values())) == [True, False]
    tables.published(daily, TUE, 2, (3, 1))
    second = agrees(spark, tables.store(daily.table), both)
    assert second == first | {both.partitions[1]: second[both.partitions[1]]}
    tables.opened(daily, MON, 3, (1, 9))  # what is staged is not seen
    assert agrees(spark, tables.store(daily.table), both) == second
    tables.place.edit("t", 2, n=77)
    third = agrees(spark, tables.store(daily.table), both)
    assert third[both.partitions[0]] not in ("", second[both.partitions[0]])
    tables.place.delete("t", 3)
    fourth = agrees(spark, tables.store(daily.table), both)
    assert fourth == third | {both.partitions[1]: fourth[both.partitions[1]]} != third


def test_a_read_brings_one_version_and_none_without_one(tables, daily):
    spark, store = tables.lab.spark, tables.store(daily.table)
    first = tables.published(daily, MON, 1, (1, 1))
    nothing = store.read(spark, daily.table, None)
    assert (nothing.columns, nothing.count()) == (["id", "n", "d"], 0)
    read = store.read(spark, daily.table, first)
    tables.published(daily, MON, 2, (1, 9))
    if tables.abilities.pins:
        assert [tuple(row) for row in read.select("id", "n").collect()] == [(1, 1)]
    store.release(spark)
    now = store.read(spark, daily.table, store.version(spark, daily.table))
    assert [tuple(row) for row in now.select("id", "n").collect()] == [(1, 9)]
    store.release(spark)


def test_a_discarded_stage_changes_nothing_and_leaves_its_mark(tables, daily):
    spark = tables.lab.spark
    first = tables.published(daily, MON, 1, (1, 1))
    picture = tables.place.versions("t")
    store, staged, _ = tables.opened(daily, MON, 2, (1, 1))
    store.discard(spark, staged, {"mark": "seen"})
    assert (store.version(spark, daily.table), tables.place.versions("t")) == (first, picture)
    assert store.remembered(spark, daily.table, "mark") == "seen"
    assert store.token(spark, daily.table) >= 1
    assert tables.place.leftovers("t") == []


@pytest.mark.needs("merge")
def test_s12_changes_are_upserted_by_key(tables):
    feed = tables.feed(tables.table(key=["id"], write=Merge(version="u")), "id bigint, n int, u timestamp")
    at = datetime(2026, 4, 20, tzinfo=timezone.utc)
    spark, store = tables.lab.spark, tables.store(feed.table)

    def upsert(token: int, *rows: tuple[object, ...]) -> None:
        made = spark.createDataFrame([(*row, at) for row in rows], feed.schema).withColumn(WINDOW_COLUMN, F.lit("w"))
        target = tables.target(feed, MON)
        store.prepare(spark, feed.table, made.schema)
        staged = store.open(spark, target, token)
        store.stage_changes(spark, staged, made, insert_only=False)
        store.publish(spark, staged, target.partitions, {}, {})

    upsert(1, (1, 1), (2, 1))
    upsert(2, (2, 5), (3, 5))
    assert tables.rows("id", "n") == [(1, 1), (2, 5), (3, 5)]
    assert tables.place.leftovers("t") == []


@pytest.mark.needs("merge")
def test_new_keys_are_inserted_beside_what_is_there(tables):
    feed = tables.feed(tables.table(partition=Day("d"), key=["id"], write=InsertOnly()), SCHEMA)
    spark, store = tables.lab.spark, tables.store(feed.table)
    target = tables.target(feed, MON)
    for token, number in ((1, 1), (2, 2)):
        feed.put(MON, (number, 1))
        made = feed.of(spark, target.scope.window)
        store.prepare(spark, feed.table, made.schema)
        staged = store.open(spark, target, token)
        store.stage_changes(spark, staged, made, insert_only=True)
        store.publish(spark, staged, target.partitions, {}, {})
    assert tables.rows("id", "n") == [(1, 1), (2, 1)]
