"""The profile of one partition that is taken while its rows are written: equal to the one that reads them again."""

from __future__ import annotations

import threading
from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from twice.content.counts import expects_at_most, most_rows
from twice.content.java import query_of
from twice.content.observing import observed
from twice.content.profile import PartitionProfile, profile

pytestmark = pytest.mark.spark

DAY = date(2026, 4, 25)
ODD = "`odd ``name. _twice_h0`"
ROWS = (
    "('a', 1, 1.00, timestamp'2026-04-25 12:00:00Z', array('x', null))",
    "('b', 1, null, null, array())",
    "('a', 2, -3.10, timestamp'2026-04-25 13:00:00Z', null)",
)


def small(spark: SparkSession, *rows: str) -> DataFrame:
    """Return rows of which Spark knows how many there are."""
    values = f"VALUES {', '.join(rows or ROWS)} AS t(tenant, id, {ODD}, at, tags)"
    return spark.sql(
        f"SELECT date'2026-04-25' AS day, tenant, id, cast({ODD} as decimal(9,2)) AS {ODD}, at, tags FROM {values}"
    )


def written(watched: DataFrame) -> int:
    """Write rows to nowhere, as a store writes them, and count them as a store does: apart from Spark's metrics."""
    watched.write.format("noop").mode("overwrite").save()
    return watched.localCheckpoint().count()


def seen_while_written(rows: DataFrame, **asked: object) -> PartitionProfile | None:
    found = observed(rows, **asked)  # type: ignore[arg-type]
    assert found is not None
    assert found.rows.schema == rows.schema
    return found.profile(written(found.rows))


def test_what_is_seen_while_rows_are_written_is_what_reading_them_again_shows(spark: SparkSession) -> None:
    rows = small(spark)
    violations = {"negative": F.col(ODD) < 0, "late": F.col("at").isNull()}
    seen = seen_while_written(rows, key=["id"], dimensions=["tenant"], violations=violations)
    read = profile(rows, partition=["day"], key=["id"], dimensions=["tenant"], violations=violations)
    assert seen == read[(DAY,)]
    assert seen.violations == {"negative": 1, "late": 1}


def test_no_rows_have_the_empty_profile(spark: SparkSession) -> None:
    seen = seen_while_written(small(spark).where("false"), key=["id"], violations={"none": F.lit(True)})
    assert (seen.digest.rows, seen.digest.sum1, seen.null_keys, seen.violations) == (0, 0, 0, {"none": 0})


def test_null_keys_are_counted_and_are_no_duplicates_of_each_other(spark: SparkSession) -> None:
    nulls = "('a', cast(null as int), 1.5, null, array('x'))"
    rows = small(spark, nulls, nulls, "('a', 1, 1.5, null, array('x'))")
    assert seen_while_written(rows, key=["id"]).null_keys == 2


def test_a_key_that_repeats_is_left_to_the_pass_that_counts_and_names_it(spark: SparkSession) -> None:
    rows = small(spark)
    assert seen_while_written(rows, key=["id"]) is None
    # Known to be unique: nothing is counted, whatever the rows hold.
    assert seen_while_written(rows, key=["id"], unique=True).digest.rows == 3
    assert seen_while_written(rows, key=[]).digest.rows == 3


def test_rows_that_were_counted_twice_are_not_believed(spark: SparkSession) -> None:
    found = observed(small(spark), key=["id"], dimensions=["tenant"])
    count = written(found.rows)
    assert found.profile(count - 1) is None
    assert found.profile(count) is not None


def test_keys_are_counted_in_one_set_only_if_they_are_known_to_be_few(spark: SparkSession) -> None:
    rows = small(spark)
    assert observed(rows, key=["id"], most=2) is None
    assert observed(rows, key=["id"], most=3) is not None
    unknown = spark.createDataFrame([(1,)], "id int")  # Spark does not know how many there are
    assert observed(unknown, key=["id"]) is None
    assert observed(rows.select("*", F.explode("tags").alias("tag")), key=["id"]) is None
    assert observed(rows.select("*", F.explode("tags").alias("tag")), key=["id"], unique=True) is not None


def test_rows_that_were_never_written_show_nothing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twice.content.observing.PATIENCE", 0.1)
    monkeypatch.setattr("twice.content.observing.SILENT", threading.Event())
    assert observed(small(spark), key=[]).profile(3) is None
    # A Spark that does not report is not asked again.
    assert observed(small(spark), key=[]) is None


def test_a_column_whose_name_is_needed_here_is_not_observed(spark: SparkSession) -> None:
    assert observed(spark.sql("select 1 as id, 2 as _TWICE_h0"), key=["id"]) is None
    assert observed(spark.sql("select 1 as id, 'a' as _twice_window"), key=["id"]) is not None


def test_how_many_rows_a_plan_can_return(spark: SparkSession) -> None:
    three, four = spark.range(3), spark.range(4).withColumnRenamed("id", "n")
    assert most_rows(three.where("id > 1").groupBy("id").count().orderBy("id").limit(2)) == 3
    assert most_rows(three.union(four)) == 7
    assert most_rows(three.join(four, three.id == four.n, "left_semi")) == 3
    assert most_rows(three.join(four, three.id == four.n, "left")) == 19
    assert most_rows(three.select(F.explode(F.sequence(F.lit(1), F.lit(1000))))) is None
    # What Spark only estimates is not a bound: a plan that was cut off hides that it makes a thousand rows of one.
    many = three.select(F.explode(F.sequence(F.lit(1), F.lit(1000))))
    assert most_rows(many.localCheckpoint()) is None
    assert most_rows(many.cache()) is None


def test_whether_a_result_is_expected_to_fit(spark: SparkSession) -> None:
    thousand = spark.range(1000)
    assert expects_at_most(thousand.where("id > 1"), 8_000)
    assert not expects_at_most(thousand.where("id > 1"), 7_999)
    # Spark knows the size of these rows only once it has optimised their plan.
    assert expects_at_most(spark.sql("select * from values (current_database()), ('b') as v(name)"), 1_000)
    # Before that, a lateral join shows the size of its left side alone.
    each = spark.sql("select a.id, b.sum from range(10) a, lateral (select id + a.id as sum from range(100000)) b")
    assert not expects_at_most(each, 100_000)


def test_a_partitioned_table_that_fits_needs_no_optimised_plan_to_know(spark: SparkSession) -> None:
    spark.sql("create namespace if not exists lake.sized")
    for name, more in (("apart", "partitioned by (d)"), ("whole", "")):
        spark.sql(f"create or replace table lake.sized.{name} (d int, v int) using iceberg {more}")
        rows = spark.table(f"lake.sized.{name}").where("d = 1")
        assert expects_at_most(rows, 1_000_000)
        assert query_of(rows).tracker().phases().contains("optimization") == (name == "whole")
