"""Promises as assertions: each holds for a healthy step and fails for a faulty one, with a text that one can read."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from twice import Day, Merge, Overwrite, Pipeline, Table
from twice.errors import NotDeterministic, UsageError
from twice.testing import assert_deterministic, assert_idempotent, assert_same_table, assert_separable, table_of

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
RAW = Table("lake.raw.orders", partition=Day("d"), schema="id BIGINT, amount DECIMAL(9,2), d DATE")
ROWS = [(1, "9.90", "2026-04-24"), (2, "5.00", "2026-04-24"), (3, "1.10", "2026-04-25"), (4, "7.25", "2026-04-25")]


def total(place="lake.mart", **how):
    pipeline = Pipeline("totals", grain=Day)
    daily = Table(f"{place}.totals", partition=Day("d"), key=["d"], write=Overwrite())

    @pipeline.step(reads={"orders": RAW}, writes=daily, **how)
    def add_up(orders):
        return orders.groupBy("d").agg(F.sum("amount").alias("amount"))

    return pipeline, add_up


def ranked(**how):
    pipeline = Pipeline("ranks", grain=Day)
    ranks = Table("lake.mart.ranks", partition=Day("d"), key=["id"], write=Overwrite())

    @pipeline.step(reads={"orders": RAW}, writes=ranks, **how)
    def rank(orders):
        return orders.withColumn("place", F.rank().over(Over.orderBy("amount", "id")))

    return pipeline


def growing():
    """A step that numbers its runs: a second run gives other rows."""
    pipeline = Pipeline("counts", grain=Day)
    counts = Table("lake.mart.counts", partition=Day("d"), key=["id"], write=Overwrite())
    calls = itertools.count()

    @pipeline.step(reads={"orders": RAW}, writes=counts)
    def number(orders):
        return orders.select("id", "d", F.lit(next(calls)).alias("run"))

    return pipeline


def test_a_healthy_step_is_idempotent_without_any_project(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline, _ = total()
    assert_idempotent(pipeline, DAY, {"orders": table_of(RAW, ROWS, spark=spark)}, spark=spark)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_healthy_step_is_deterministic_and_separable(spark):
    pipeline, add_up = total()
    assert_deterministic(add_up, DAY, inputs={"lake.raw.orders": ROWS})
    assert_separable(pipeline.find("add_up"), DAY, {"orders": table_of(RAW, ROWS, spark=spark)})


def test_a_step_that_numbers_its_runs_is_not_idempotent(spark):
    with pytest.raises(AssertionError) as found:
        assert_idempotent(growing(), DAY, {"orders": ROWS}, spark=spark)
    first, where, *rest = str(found.value).splitlines()
    assert first == "run-twice: a unit that is run twice has the same rows, and no new version; this does not hold"
    assert where == "number (lake.mart.counts): its rows differ after the second run"
    assert rest[0].startswith("  4 rows after one run, 4 after the second run; ")
    assert any(line.startswith("  run: ") for line in rest)
    assert any(line.startswith("  id=3: run ") for line in rest)
    assert not any(line.startswith("  repeat:") for line in rest)


@pytest.mark.full
def test_a_step_whose_rows_depend_on_their_order_is_not_deterministic(spark):
    pipeline = Pipeline("lists", grain=Day)
    lists = Table("lake.mart.lists", partition=Day("d"), key=["d"], write=Overwrite())

    @pipeline.step(reads={"orders": RAW}, writes=lists)
    def listed(orders):
        return orders.groupBy("d").agg(F.collect_list("id").alias("ids"))

    rows = [(number, "1.00", DAY) for number in range(1, 9)]
    with pytest.raises(AssertionError) as found:
        assert_deterministic(pipeline, DAY, {"orders": rows}, spark=spark)
    text = str(found.value)
    assert "listed (lake.mart.lists): two clean runs differ: the second one ran with shuffled input" in text
    assert "ids: 0.0% agree; order (1)" in text
    assert "collect_list (test_asserts.py:" in text


@pytest.mark.full
def test_a_step_that_ranks_over_everything_is_not_separable(spark):
    with pytest.raises(AssertionError) as found:
        assert_separable(ranked(), DAY, {"orders": ROWS}, spark=spark)
    text = str(found.value)
    assert "rank (lake.mart.ranks): one job over 2026-04-24 and 2026-04-25 gives other rows than one job each" in text
    assert "  id=4: place 2 | 3" in text
    assert "declare separable=False" in text


def test_a_run_that_is_refused_is_raised_as_it_is(spark):
    pipeline, _ = total()

    @pipeline.step(reads={"orders": RAW}, writes=Table("lake.mart.now", partition=Day("d"), write=Overwrite()))
    def stamped(orders):
        return orders.withColumn("at", F.current_timestamp())

    with pytest.raises(NotDeterministic, match="stamped"):
        assert_deterministic(stamped, DAY, {"orders": ROWS}, spark=spark)


def test_what_cannot_be_checked_is_an_error_and_not_a_pass(spark):
    with pytest.raises(UsageError) as found:
        assert_separable(ranked(separable=False), DAY, {"orders": ROWS}, spark=spark)
    assert "rank (declared separable=False)" in str(found.value)
    assert "nothing was asserted" in str(found.value)


@pytest.mark.full
@pytest.mark.parametrize("store", ["delta", "parquet", "sqlite"])
def test_stores_are_of_the_type_that_is_named(spark, store):
    pipeline, _ = total(place="place.main")
    assert_idempotent(pipeline, DAY, {"orders": ROWS}, stores={"place": store}, spark=spark)


def merged():
    pipeline = Pipeline("people", grain=Day)
    events = Table("lake.raw.events", partition=Day("d"), schema="id BIGINT, name STRING, v INT, d DATE")
    people = Table("lake.core.people", key=["id"], write=Merge(version="v"))

    @pipeline.step(reads={"events": events}, writes=people)
    def newest(events):
        return events.select("id", "name", "v")

    return pipeline, newest


BAD = [
    (lambda: (total()[0], "2026-04", {"orders": ROWS}), "'2026-04' is not a day"),
    (lambda: (total()[0], DAY, {}), "step add_up reads lake.raw.orders, and inputs= has no rows for it"),
    (
        lambda: (total()[0], DAY, {"order": ROWS}),
        "nothing of totals reads 'order'; it reads lake.raw.orders. Did you mean orders?",
    ),
    (lambda: (total()[0], "2026-04-28", {"orders": ROWS}), "no input of totals has rows for 2026-04-28"),
    (lambda: (merged()[1], DAY, {"events": []}), "lake.core.people has no partition: give the grain"),
    (lambda: (len, DAY, {}), "len is not a step"),
]


@pytest.mark.parametrize(("case", "said"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be_asserted_is_refused_before_anything_runs(spark, case, said):
    thing, window, inputs = case()
    with pytest.raises(UsageError) as found:
        assert_idempotent(thing, window, inputs, spark=spark)
    assert said in found.value.message


def test_stores_that_are_not_known_are_refused(spark):
    pipeline, _ = total()
    with pytest.raises(UsageError, match="lake has the type 'icebergs'"):
        assert_idempotent(pipeline, DAY, {"orders": ROWS}, stores={"lake": "icebergs"}, spark=spark)
    with pytest.raises(UsageError, match="no table of totals is in 'lakes'"):
        assert_idempotent(pipeline, DAY, {"orders": ROWS}, stores={"lakes": "iceberg"}, spark=spark)


def test_the_same_rows_in_any_order_are_the_same_table(spark):
    left = table_of("id INT, name STRING, tags ARRAY<STRING>", [(1, "a", ["x"]), (2, None, [])], spark=spark)
    assert_same_table(left, left.select("tags", "name", "id").orderBy("id", ascending=False))
    assert_same_table(left, left, key="id")


def test_tables_that_differ_show_counts_then_columns_then_cells(spark):
    columns = "id INT, paid DECIMAL(5,2), name STRING"
    left = table_of(columns, [(1, "1.00", "a"), (2, "2.00", "b"), (3, "3.00", "c")], spark=spark)
    right = table_of(columns, [(1, "1.00", "a"), (2, "2.50", None), (4, "3.00", "c")], spark=spark)
    with pytest.raises(AssertionError) as found:
        assert_same_table(left, right, key=["id"])
    assert str(found.value).splitlines() == [
        "the tables differ: 3 rows on the left, 3 on the right; 1 only on the left; 1 only on the right; 1 changed",
        "  paid: 50.0% agree; value (1)",
        "  name: 50.0% agree; null (1)",
        "  id=2: paid 2.00 | 2.50",
        "  id=2: name b | null",
        "  only on the left: id=3, paid=3.00, name=c",
        "  only on the right: id=4, paid=3.00, name=c",
    ]
    with pytest.raises(AssertionError, match="the tables differ: 3 rows found, 2 expected; 1 only found"):
        assert_same_table(left, left.where("id < 3"), names=("found", "expected"))


def test_tables_of_other_columns_or_types_differ(spark):
    left = table_of("id INT, paid DECIMAL(5,2)", [(1, "1.00")], spark=spark)
    with pytest.raises(AssertionError, match=r"paid is decimal\(5,2\) on the left, double on the right"):
        assert_same_table(left, left.withColumn("paid", F.col("paid").cast("double")))
    with pytest.raises(AssertionError, match="columns on one side only: paid"):
        assert_same_table(left, left.drop("paid"))
    with pytest.raises(AssertionError, match="no column in common"):
        assert_same_table(left, spark.range(1).withColumnRenamed("id", "other"))
    with pytest.raises(UsageError, match=r"the key column idd is missing on the left\. Did you mean id"):
        assert_same_table(left, left, key="idd")
