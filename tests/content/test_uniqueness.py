"""What a plan proves about keys, and what it must not claim to prove."""

import pytest
from pyspark.sql import functions as F

from twice.content.keys import key_of, key_sql
from twice.content.profile import profile
from twice.content.uniqueness import proves_unique

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark):
    return spark.range(100).select((F.col("id") % 10).alias("a"), (F.col("id") % 7).alias("b"), F.col("id").alias("v"))


@pytest.fixture
def grouped(rows):
    return rows.groupBy("a", "b").agg(F.sum("v").alias("s"))


def test_a_grouping_by_the_key_proves_it(grouped):
    assert proves_unique(grouped, ["a", "b"])
    assert proves_unique(grouped, ["a", "b", "s"])
    assert proves_unique(grouped.select("b", "s", "a").where("a > 1").orderBy("s"), ["a", "b"])


def test_distinct_rows_and_dropped_duplicates_prove_it(rows):
    assert proves_unique(rows.select("a", "b").distinct(), ["a", "b"])
    assert proves_unique(rows.dropDuplicates(["a"]), ["a"])


@pytest.mark.parametrize(
    "change",
    [
        lambda df: df.select("a", "s").withColumnRenamed("s", "b"),
        lambda df: df.union(df),
        lambda df: df.withColumn("a", (F.col("a") / 2).cast("int")),
        lambda df: df.select("a", F.explode(F.array("b", "b")).alias("b")),
        lambda df: df.crossJoin(df.sparkSession.range(2)),
        lambda df: df.withColumn("b", F.lit(1)),
    ],
    ids=["another column", "union", "expression", "explode", "cross join", "constant"],
)
def test_what_may_repeat_a_key_is_not_proven(grouped, change):
    assert not proves_unique(change(grouped), ["a", "b"])


def test_part_of_the_grouping_is_not_enough(grouped, rows):
    assert not proves_unique(grouped, ["a"])
    assert not proves_unique(rows, ["a"])


@pytest.mark.parametrize(
    "made",
    [
        lambda: key_of("a", "b"),
        lambda: key_of("b", "a"),
        lambda: key_of(F.col("a"), F.col("b")),
        lambda: F.expr(key_sql("b", "a")),
    ],
    ids=["names", "turned around", "columns", "text"],
)
def test_a_surrogate_of_the_grouping_proves_it(grouped, made):
    assert proves_unique(grouped.withColumn("k", made()), ["k"])


def test_a_surrogate_proves_its_part_of_the_grouping(rows):
    by_name = rows.withColumnRenamed("b", "b.`c").groupBy("a", "`b.``c`").agg(F.sum("v").alias("s"))
    assert proves_unique(by_name.withColumn("k", key_of("`b.``c`")), ["a", "k"])
    assert not proves_unique(by_name.withColumn("k", key_of("`b.``c`")), ["k"])


@pytest.mark.parametrize(
    "change",
    [
        lambda df: df.withColumn("k", key_of("a")),
        lambda df: df.withColumn("k", key_of(F.col("a") % 2, "b")),
        lambda df: df.withColumn("k", key_of("a", F.col("b").cast("boolean"))),
        lambda df: df.withColumn("a", F.col("a") % 2).withColumn("k", key_of("a", "b")),
        lambda df: df.withColumn("k", F.substring(F.sha2(F.concat("a", "b"), 256), 1, 32)),
        lambda df: df.withColumn("k", F.substring(key_of("a", "b"), 1, 4)),
        lambda df: df.withColumn("k", key_of("a", "b")).union(df.withColumn("k", key_of("a", "b"))),
    ],
    ids=["of a part", "of less", "of a cast", "of what became of it", "made by hand", "cut off", "union"],
)
def test_what_is_less_than_a_surrogate_of_the_grouping_is_not_proven(grouped, change):
    assert not proves_unique(change(grouped), ["k"])


def test_names_that_differ_by_case_only_prove_nothing(rows):
    made = rows.groupBy("a").agg(F.count("*").alias("n")).withColumn("k", key_of("a"))
    assert not proves_unique(made.toDF("a", "A", "k"), ["k"])


def test_a_key_takes_odd_names_as_columns(spark):
    rows = spark.sql("select named_struct('x', 5, 'x-y', 7), 2, 9").toDF("a", "y", "${spark.app.id}")
    odd_name = "`${spark.app.id}`"
    found = rows.select(key_of("`a`.x-y"), key_of(F.col("`a`.`x-y`")), key_of(odd_name), key_of(F.lit(9)))
    one, other, odd, nine = found.collect()[0]
    assert (one, odd) == (other, nine)


def test_a_profile_of_unique_keys_still_counts_nulls_and_violations(spark):
    rows = spark.createDataFrame([(1, "x", 5), (2, None, -1), (2, "y", 3)], "p int, k string, v int")
    bad = {"v": F.col("v") < 0}
    counted = profile(rows, partition=["p"], key=["k"], violations=bad)
    assert profile(rows, partition=["p"], key=["k"], violations=bad, unique=True) == counted
    assert counted[2,].null_keys == 1
    assert counted[2,].violations == {"v": 1}
