"""Overwrite and Whole, on every store: a scope is replaced as a whole, and nothing but the scope."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from twice import Day, Hour, Month, Overwrite, QuarterHour, Retry, Whole
from twice.api import run as engine_run
from twice.errors import KeyViolation, OutOfScope, SchemaRefused, StepFailed

pytestmark = [pytest.mark.spark, pytest.mark.in_scenarios]

ORDERS = "id bigint, n int, d date"
MON, TUE, WED, THU = "2026-04-20", "2026-04-21", "2026-04-22", "2026-04-23"


@pytest.fixture
def daily(ground):
    """A table by day with three days in it."""
    table = ground.table(partition=Day("d"), key=["id"], write=Overwrite())
    feed = ground.feed(table, ORDERS)
    for number, day in enumerate((MON, TUE, WED)):
        feed.put(day, (10 * number, 1), (10 * number + 1, 2))
    assert ground.run(feed, from_=MON, to=THU).status == "published"
    return feed


def test_s02_a_day_is_run_again_changed_and_emptied_between_its_neighbours(ground, daily):
    # The same again: same content, no new version (S02).
    first = ground.rows("id", "n")
    again = ground.again(daily, from_=MON, to=THU)
    assert len(first) == again.rows == 6
    # A day is corrected: a row is gone, one is new, one has changed; its neighbours stay (S04).
    daily.put(TUE, (11, 7), (12, 8), (13, 9))
    corrected = ground.run(daily, TUE)
    assert (corrected.status, corrected.rows, corrected.details["published_partitions"]) == ("published", 3, 1)
    assert ground.rows("id", "n") == [(0, 1), (1, 2), (11, 7), (12, 8), (13, 9), (20, 1), (21, 2)]
    assert ground.again(daily, TUE).digest == corrected.digest
    # Its correction has no rows: the day becomes empty, once (S06).
    daily.put(TUE)
    emptied = ground.run(daily, from_=MON, to=THU)
    assert (emptied.status, emptied.rows, emptied.details["published_partitions"]) == ("published", 4, 1)
    assert ground.rows("id") == [(0,), (1,), (20,), (21,)]
    ground.again(daily, TUE)
    # A day that never had rows makes no version.
    ground.again(daily, THU)


@pytest.mark.parametrize(
    ("grain", "labels", "time_zone"),
    [
        (Hour, ("2026-04-20T09", "2026-04-20T10", "2026-04-20T11"), "UTC"),
        (QuarterHour, ("2026-10-25T00:45", "2026-10-25T01:00", "2026-10-25T01:15"), "Europe/Berlin"),
        (Month, ("2026-01", "2026-02", "2026-03"), "UTC"),
        # The clocks are set forward on the 29th: that day has 23 hours.
        (Day, ("2026-03-29", "2026-03-30", "2026-03-31"), "Europe/Berlin"),
    ],
    ids=["hour", "quarter-hour", "month", "local-day"],
)
def test_s04_partitions_of_every_grain_are_replaced_alone(ground, grain, labels, time_zone):
    table = ground.table(partition=grain("d"), key=["id"], write=Overwrite())
    kind = "timestamp" if grain.sub_day else "date"
    feed = ground.feed(table, f"id bigint, n int, d {kind}", grain=grain, time_zone=time_zone)
    first, second, end = labels
    feed.put(first, (1, 1))
    feed.put(second, (2, 1))
    assert ground.run(feed, from_=first, to=end).details["published_partitions"] == 2

    feed.put(second, (2, 2), (3, 3))
    step = ground.run(feed, from_=first, to=end)

    assert (step.status, step.details["published_partitions"]) == ("published", 1)
    assert ground.rows("id", "n") == [(1, 1), (2, 2), (3, 3)]
    ground.again(feed, second)


def test_s09_a_whole_table_is_replaced_and_old_content_does_not_come_back(ground):
    feed = ground.feed(ground.table(key=["id"], write=Whole()), "id bigint, n int")
    feed.put(MON, (1, 1), (2, 2))
    feed.put(TUE, (2, 3), (3, 3))

    assert ground.run(feed, MON).status == "published"
    assert ground.run(feed, TUE).status == "published"

    assert ground.rows("id", "n") == [(2, 3), (3, 3)]
    ground.again(feed, TUE)
    with ground.untouched():
        assert ground.run(feed, MON).status == "superseded"
    feed.put(TUE)
    assert ground.run(feed, TUE).status == "published"
    assert ground.rows("id") == []


def test_s10_a_day_and_a_tenant_are_a_scope(ground):
    tenants = ["acme", 'O\'Brien & "Söhne"', "a b", "..", "back\\slash", "100%", "a=b/c", "東京", "${x}", "%41", "NULL"]
    table = ground.table(partition=Day("d"), dimensions=["tenant"], key=["tenant", "id"], write=Overwrite())
    feed = ground.feed(table, "id bigint, n int, tenant string, d date")
    everybody = [(number, 1, tenant) for number, tenant in enumerate(tenants)]
    feed.put(MON, *everybody)
    feed.put(TUE, *everybody)
    assert ground.run(feed, from_=MON, to=WED).rows == 2 * len(tenants)
    assert sorted(ground.rows("tenant")) == sorted((tenant,) for tenant in [*tenants, *tenants])

    # One tenant's day is corrected; then one tenant's day is empty.
    feed.put(MON, (1, 5, tenants[1]))
    assert ground.run(feed, MON, dimensions={"tenant": tenants[1]}).rows == 1
    feed.put(MON)
    assert ground.run(feed, MON, dimensions={"tenant": tenants[6]}).status == "published"

    found = ground.rows("tenant", "n")
    assert found.count((tenants[1], 5)) == found.count((tenants[1], 1)) == found.count((tenants[6], 1)) == 1
    assert len(found) == 2 * len(tenants) - 1
    # A row of another tenant is no business of this run.
    feed.put(MON, (1, 9, "acme"))
    with ground.untouched(), pytest.raises(OutOfScope, match="tenant=acme"):
        ground.run(feed, MON, dimensions={"tenant": "a b"})


def test_s11_what_is_wrong_is_refused_before_anybody_sees_it(ground, daily):
    def refused(kind: type[Exception], shape) -> str:
        daily.shape = shape
        with ground.untouched(), pytest.raises(kind) as stopped:
            ground.run(daily, TUE)
        return str(stopped.value)

    # Rows of another day, or of none (S11).
    said = refused(OutOfScope, lambda rows: rows.withColumn("d", F.expr("if(id = 10, date'2026-04-22', d)")))
    assert "returned 1 row outside its scope 2026-04-21" in said
    assert "id=10" in said
    assert "id=10" in refused(OutOfScope, lambda rows: rows.withColumn("d", F.expr("if(id = 10, null, d)")))
    # A key twice, or none (S15).
    said = refused(KeyViolation, lambda rows: rows.withColumn("id", F.lit(10).cast("bigint")))
    assert "1 business key (id)" in said
    assert "id=10" in said
    said = refused(KeyViolation, lambda rows: rows.withColumn("id", F.expr("nullif(id, 10)")))
    assert "null in the business key (id)" in said
    # A column that is gone, and one of another type (S51).
    assert "n" in refused(SchemaRefused, lambda rows: rows.drop("n"))
    assert "string" in refused(SchemaRefused, lambda rows: rows.withColumn("n", F.col("n").cast("string")))
    assert "smallint" in refused(SchemaRefused, lambda rows: rows.withColumn("n", F.col("n").cast("smallint")))
    # Something that breaks in the middle of the rows (S03).
    refused(StepFailed, lambda rows: rows.withColumn("n", F.expr("if(id = 11, int(raise_error('no')), n)")))
    # What is right then, is taken.
    daily.put(TUE, (10, 3))
    daily.shape = None
    assert ground.run(daily, TUE).status == "published"


def test_s51_a_new_column_is_added_and_older_days_hold_null(ground, daily):
    daily.shape = lambda rows: rows.withColumn("more", F.concat(F.lit("x"), F.col("n")))

    assert ground.run(daily, TUE).status == "published"

    assert ground.rows("id", "more") == [(0, None), (1, None), (10, "x1"), (11, "x2"), (20, None), (21, None)]
    ground.again(daily, TUE)


def test_s44_touched_by_hand_is_noticed_and_repaired(ground, daily):
    right = ground.rows("id", "n")

    for skip_fresh, by_hand in ((False, ground.place.edit), (True, ground.place.delete)):
        by_hand("t", 10, **({"n": 99} if by_hand == ground.place.edit else {}))
        assert ground.rows("id", "n") != right
        assert ground.run(daily, TUE, skip_fresh=skip_fresh).status == "published"
        assert ground.rows("id", "n") == right
    with ground.untouched():
        assert ground.run(daily, TUE, skip_fresh=True).status == "fresh"


def test_an_input_that_is_edited_by_hand_while_it_is_read_is_read_as_it_was_or_again(ground, daily):
    summary = ground.table("summary", partition=Day("d"), key=["d"], write=Overwrite())
    calls = []

    @daily.pipeline.step(reads={"rows": daily.table}, writes=summary, retry=Retry(wait_initial=0))
    def summed(rows):
        if not calls:
            meanwhile(lambda: ground.place.edit("t", 10, n=100))
        calls.append(1)
        return rows.groupBy("d").agg(F.sum("n").alias("id"))

    run = engine_run(
        daily.pipeline,
        for_=TUE,
        steps=["summed"],
        spark=ground.lab.spark,
        ledger=ground.lab.ledger,
        config=ground.config,
    )
    # Pinned: what the edit made is for the next run. Else the first attempt saw that it read a mixture.
    pinned = ground.abilities.pins
    assert run.steps[0].attempts == len(calls) == (1 if pinned else 2)
    assert [total for (total,) in ground.place.rows("summary", "id")] == [3 if pinned else 102]
