"""The profile of staged rows: per partition, in the fewest passes, blind to nothing."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.counting import collected
from twice.content.profile import duplicate_samples, null_key_samples, profile
from twice.errors import DefinitionError

pytestmark = pytest.mark.spark

DAY1, DAY2 = date(2026, 4, 25), date(2026, 4, 26)
ROWS: list[tuple[Any, ...]] = [
    (DAY1, 1, "a", 10),
    (DAY1, 2, "a", -1),
    (DAY1, 2, "a", 5),
    (DAY1, 3, None, None),
    (DAY1, 3, None, 7),
    (DAY2, 1, "a", 10),
    (DAY2, None, None, -5),
    (None, 1, "a", 1),
]
SCHEMA = "day date, id int, code string, amount int"


def test_duplicates_nulls_and_violations_are_counted_per_partition(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA)
    found = profile(df, partition=["day"], key=["id", "code"], violations={"negative": F.col("amount") < 0})
    counted = {
        place: (one.digest.rows, one.duplicate_keys, one.null_keys, one.violations["negative"])
        for place, one in found.items()
    }
    assert counted == {(DAY1,): (5, 1, 2, 1), (DAY2,): (2, 0, 1, 1), (None,): (1, 0, 0, 0)}
    assert found == profile(
        df.repartition(3), partition=["day"], key=["code", "id"], violations={"negative": F.col("amount") < 0}
    )


def test_the_same_key_in_two_partitions_is_no_duplicate(spark: SparkSession) -> None:
    df = spark.createDataFrame([(DAY1, 1), (DAY2, 1)], "day date, id int")
    assert {one.duplicate_keys for one in profile(df, partition=["day"], key=["id"]).values()} == {0}
    assert profile(df, partition=[], key=["id"])[()].duplicate_keys == 1


def test_a_key_counts_once_however_often_it_repeats(spark: SparkSession) -> None:
    df = spark.createDataFrame([("ab", "c")] * 5 + [("a", "bc")] + [("x", "y")] * 2, "a string, b string")
    assert profile(df, partition=[], key=["a", "b"])[()].duplicate_keys == 2


def test_no_rows_have_no_profile(spark: SparkSession) -> None:
    df = spark.createDataFrame([], SCHEMA)
    assert profile(df, partition=[], key=["id"]) == {}
    assert profile(df, partition=["day"], key=[]) == {}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_timestamp_partitions_come_back_as_instants(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        df = spark.sql("select timestamp '2026-11-01 05:00:00Z' as hour, 'é' as tenant, 1 as id")
        found = profile(df, partition=["hour", "tenant"], key=["id"])
        samples = null_key_samples(df.withColumn("id", F.lit(None).cast("int")), ["hour"], ["id"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    hour = datetime(2026, 11, 1, 5, tzinfo=timezone.utc)
    assert list(found) == [(hour, "é")]
    assert samples == [{"hour": hour, "id": None, "_rows": 1}]


def test_samples_name_the_offending_keys(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA)
    assert duplicate_samples(df, ["day"], ["id", "code"]) == [{"day": DAY1, "id": 2, "code": "a", "_rows": 2}]
    assert null_key_samples(df, ["day"], ["id", "code"]) == [
        {"day": DAY1, "id": 3, "code": None, "_rows": 2},
        {"day": DAY2, "id": None, "code": None, "_rows": 1},
    ]
    assert len(null_key_samples(df, ["day"], ["id", "code"], limit=1)) == 1


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA)
    with pytest.raises(DefinitionError, match="no column 'order_id'; there are: amount, code, day, id"):
        profile(df, partition=["day"], key=["order_id"])


def test_many_dimension_values_come_to_the_driver_as_one_row(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(DAY1, f"t{n}", 1, n) for n in range(50)] + [(DAY1, "t1", 1, 9), (DAY1, None, 1, 1)]
    df = spark.createDataFrame(rows, "day date, tenant string, id int, amount int")
    whole = profile(df.where("tenant is not null"), partition=["day"], key=[])[(DAY1,)].digest
    counts = collected(monkeypatch)
    found = profile(df, partition=["day"], dimensions=["tenant"], key=["id"], where=F.col("amount") >= 0)
    assert counts == [1, 1]  # the sums, and the number of duplicates
    # The same key of two tenants is not a duplicate, and a null tenant belongs to no partition
    assert (found[(DAY1,)].duplicate_keys, found[(DAY1,)].digest) == (1, whole)
