"""What a plan proves about rows that are made of other rows, and what it must not claim to prove."""

import pytest
from pyspark.sql import functions as F

from twice.content.carrying import carried

pytestmark = pytest.mark.spark


@pytest.fixture
def events(spark):
    return spark.range(10).select(F.col("id"), F.array(F.col("id")).alias("parts"), F.lit("x").alias("page"))


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        pytest.param(lambda rows: rows, {"id", "parts", "page"}, id="as they are"),
        pytest.param(lambda rows: rows.withColumn("d", F.current_date()), {"id", "parts", "page"}, id="a new column"),
        pytest.param(lambda rows: rows.select("page", "id").alias("e").select("e.id"), {"id"}, id="chosen columns"),
        pytest.param(lambda rows: rows.withColumn("id", F.col("id") % 2), {"parts", "page"}, id="a changed column"),
        pytest.param(lambda rows: rows.selectExpr("id % 2 AS id", "id AS other"), set(), id="a name for another value"),
        pytest.param(lambda rows: rows.selectExpr("page AS id", "id AS page"), set(), id="names that change places"),
    ],
)
def test_columns_that_are_neither_changed_nor_renamed_are_carried_over(events, make, kept):
    assert carried(make(events), events) == kept


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda rows: rows.where("id > 3"), id="filter"),
        pytest.param(lambda rows: rows.limit(3), id="limit"),
        pytest.param(lambda rows: rows.select("id", F.explode("parts").alias("part")), id="explode"),
        pytest.param(lambda rows: rows.union(rows), id="union"),
        pytest.param(lambda rows: rows.crossJoin(rows.select(F.lit(1).alias("n"))), id="join"),
        pytest.param(lambda rows: rows.groupBy("id").agg(F.first("page").alias("page")), id="groups"),
        pytest.param(lambda rows: rows.sparkSession.range(10), id="rows of something else"),
    ],
)
def test_a_function_that_may_make_none_or_several_of_a_row_proves_nothing(events, make):
    assert carried(make(events), events) is None


def test_a_hash_in_a_name_is_part_of_the_name(spark):
    rows = spark.range(3).select(F.col("id").alias("a#1"), F.col("id").alias("a"))
    assert carried(rows.drop("a"), rows) == {"a#1"}
