"""The content digest: blind to order, files and column order; sees every other change."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.digest import Digest
from twice.content.profile import profile
from twice.content.rows import order_sensitive, row_hashes, schema_fingerprint
from twice.errors import DefinitionError

pytestmark = pytest.mark.spark  # even a schema in DDL is read by Spark

WIDE = (
    "i int, l bigint, s string, d decimal(20,4), f double, b binary, ok boolean, day date, at timestamp, "
    "a array<int>, aa array<array<int>>, st struct<x:int,y:string>, m map<string,int>, "
    "deep array<struct<k:string,v:map<int,array<double>>>>"
)


def _struct(ddl: str) -> T.StructType:
    kind = T._parse_datatype_string(ddl)
    assert isinstance(kind, T.StructType)
    return kind


def digests(spark: SparkSession, ddl: str, variants: list[list[tuple[Any, ...]]]) -> list[Digest]:
    """The digest of each variant, all of them in one Spark job."""
    schema = T.StructType([T.StructField("_twice_window", T.IntegerType()), *_struct(ddl).fields])
    rows = [(number, *row) for number, variant in enumerate(variants) for row in variant]
    found = profile(spark.createDataFrame(rows, schema), partition=["_twice_window"], key=[])
    return [found[(number,)].digest if variant else Digest.empty("") for number, variant in enumerate(variants)]


@pytest.mark.parametrize(
    ("ddl", "variants"),
    [
        ("a int, b int", [[(None, 1)], [(1, None)], [(1, 1)], [(None, None)], [(0, 1)]]),
        (
            "a string, b string",
            [[("ab", "c")], [("a", "bc")], [("", None)], [(None, "")], [(None, None)], [("", "")]],
        ),
        (
            "a array<int>",
            [[(v,)] for v in (None, [], [None], [1], [None, 1], [1, None], [1, 1], [0], [None, None])],
        ),
        (
            "a array<int>, b array<int>",
            [[([1], [2])], [([1, 2], [])], [([], [1, 2])], [([2], [1])], [(None, [1, 2])]],
        ),
        (
            "a array<array<int>>",
            [[(v,)] for v in ([[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]], [[1, 2], None])],
        ),
        ("a struct<x:int,y:int>", [[(v,)] for v in (None, (None, None), (1, None), (None, 1), (1, 1))]),
        ("a struct<x:struct<y:int>>", [[(v,)] for v in (None, (None,), ((None,),), ((1,),))]),
        (
            "a map<string,int>",
            [[(v,)] for v in (None, {}, {"a": 1}, {"a": None}, {"b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1})],
        ),
        (
            "a map<int,map<int,int>>",
            [[(v,)] for v in ({1: {2: 3}}, {1: {3: 2}}, {1: {}}, {1: None}, {2: {2: 3}})],
        ),
        ("a double", [[(v,)] for v in (0.0, 1.0, float("nan"), float("inf"), float("-inf"), 5e-324, None)]),
        ("a boolean", [[(True,)], [(False,)], [(None,)]]),
        ("a int", [[(1,)], [(1,), (1,)], [(1,), (1,), (1,)], [(1,), (2,)], [(1,), (1,), (2,), (2,)]]),
    ],
)
def test_contents_that_differ_have_digests_that_differ(
    spark: SparkSession, ddl: str, variants: list[list[tuple[Any, ...]]]
) -> None:
    assert len({digest.text for digest in digests(spark, ddl, variants)}) == len(variants)


def test_equal_contents_have_equal_digests(spark: SparkSession) -> None:
    same_maps = [[({"a": 1, "b": 2},)], [({"b": 2, "a": 1},)]]
    same_floats = [[(0.0, [0.0])], [(-0.0, [-0.0])]]
    for ddl, variants in (("a map<string,int>", same_maps), ("a double, b array<double>", same_floats)):
        assert len(set(digests(spark, ddl, variants))) == 1
    nans = spark.sql("select double('NaN') a union all select -double('NaN') union all select sqrt(-1d)")
    assert nans.select(row_hashes(nans.schema)[0]).distinct().count() == 1


small = st.integers(-3, 3)
texts = st.sampled_from(["", "a", "b", "ab", "é", "😀"])
row = st.tuples(
    st.none() | small,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | texts,
    st.none() | st.decimals(min_value=-100, max_value=100, places=2),
    st.none() | st.floats(allow_nan=False, width=32).map(lambda value: value + 0.0),
    st.none() | st.binary(max_size=3),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.datetimes(min_value=datetime(1990, 1, 2)),
    st.none() | st.lists(st.none() | small, max_size=3),
    st.none() | st.lists(st.none() | st.lists(st.none() | small, max_size=2), max_size=3),
    st.none() | st.tuples(st.none() | small, st.none() | texts),
    st.none() | st.dictionaries(texts, st.none() | small, max_size=3),
    st.none()
    | st.lists(
        st.none()
        | st.tuples(
            st.none() | texts,
            st.none() | st.dictionaries(small, st.none() | st.lists(st.just(1.5)), max_size=2),
        ),
        max_size=2,
    ),
)


def _drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    values: list[Any] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(value: Any) -> None:
        values.append(value)

    draw()
    return values


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return ("map", frozenset((key, _frozen(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_frozen, value))
    return (type(value).__name__, value)


def test_rows_collide_only_when_they_are_equal(spark: SparkSession) -> None:
    rows = [one for pair in _drawn(st.tuples(row, row, st.integers(0, 13)), 200) for one in _mixed(*pair)]
    found = digests(spark, WIDE, [[one] for one in rows])
    by_content: dict[Any, set[str]] = {}
    for content, digest in zip(map(_frozen, rows), found, strict=True):
        by_content.setdefault(content, set()).add(digest.text)
    assert all(len(seen) == 1 for seen in by_content.values())
    assert len(set().union(*by_content.values())) == len(by_content)
    for half in ("sum1", "sum2"):  # either hash alone tells them apart, too
        assert len({getattr(digest, half) for digest in found}) == len(by_content)


def _mixed(left: tuple[Any, ...], right: tuple[Any, ...], position: int) -> list[tuple[Any, ...]]:
    """The two rows, and the first with exactly one value of the second."""
    return [left, right, (*left[:position], right[position], *left[position + 1 :])]


def test_the_digest_does_not_see_order_files_or_column_order(spark: SparkSession) -> None:
    rows = _drawn(row, 60)
    shuffled = random.Random(7).sample(rows, len(rows))
    first, second, less, more = digests(spark, WIDE, [rows, shuffled, rows[1:], [*rows, rows[0]]])
    assert first == second
    assert len({first, less, more}) == 3
    df = spark.createDataFrame(rows, _struct(WIDE))
    reordered = df.select(*sorted(df.columns, reverse=True)).repartition(5)
    assert profile(reordered, partition=[], key=[])[()].digest == first
    known = df.where("st is not null")
    renested = known.withColumn("st", F.struct(F.col("st.y").alias("y"), F.col("st.x").alias("x")))
    assert profile(known, partition=[], key=[]) == profile(renested, partition=[], key=[])


def test_digests_of_disjoint_rows_add_up(spark: SparkSession) -> None:
    rows = [(i % 3, str(i)) for i in range(1000)]
    df = spark.createDataFrame(rows, "p int, s string")
    parts = profile(df, partition=["p"], key=[])
    total = sum((part.digest for part in parts.values()), Digest.empty(schema_fingerprint(df.schema)))
    assert total == profile(df, partition=[], key=[])[()].digest
    assert total.rows == 1000


def test_the_sums_follow_the_documented_formula(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "a"), (None, "b"), (3, None)], "n bigint, s string")
    mask = "CASE WHEN n IS NULL THEN 1L ELSE 0L END | CASE WHEN s IS NULL THEN 2L ELSE 0L END"
    sums = [
        sum(value[0] + 2**63 for value in df.selectExpr(f"xxhash64({seed}L, {mask}, n, s)").collect())
        for seed in (1, 2)
    ]
    assert profile(df, partition=[], key=[])[()].digest == Digest(3, *sums, schema_fingerprint(df.schema))


def test_more_columns_than_one_mask_holds(spark: SparkSession) -> None:
    names = [f"c{i:03}" for i in range(130)]
    rows = [tuple(None if i == hole else 1 for i in range(130)) for hole in range(130)]
    found = digests(spark, ", ".join(f"{name} int" for name in names), [[one] for one in rows])
    assert len(set(found)) == 130


def test_odd_names_and_framework_columns(spark: SparkSession) -> None:
    df = spark.range(3).select(F.col("id").alias("a.b"), F.col("id").alias("we`ird"), F.col("id").alias(" "))
    marked = df.withColumn("_twice_loaded_at", F.current_timestamp())
    assert profile(df, partition=[], key=["a.b"]) == profile(marked, partition=[], key=["a.b"])


def test_what_cannot_be_compared_is_refused_by_name(spark: SparkSession) -> None:
    df = spark.sql("select 1 as ok, array(parse_json('1')) as payload")
    with pytest.raises(DefinitionError, match=r"'payload' holds the type variant"):
        profile(df, partition=[], key=[])
    with pytest.raises(DefinitionError, match="no column 'nope'"):
        row_hashes(df.schema, ["nope"])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a int", "a bigint"),
        ("a decimal(10,2)", "a decimal(10,3)"),
        ("a date", "a int"),
        ("a int", "b int"),
        ("a int", "a int, b int"),
        ("a array<int>", "a array<bigint>"),
        ("a struct<x:int>", "a struct<y:int>"),
        ("a map<int,int>", "a map<int,string>"),
        ("a timestamp", "a timestamp_ntz"),
        ("a string", "a binary"),
    ],
)
def test_a_type_change_changes_the_fingerprint(left: str, right: str) -> None:
    assert schema_fingerprint(_struct(left)) != schema_fingerprint(_struct(right))


def test_the_fingerprint_ignores_order_nullability_and_comments() -> None:
    left = _struct("a int NOT NULL COMMENT 'x', b struct<x:int,y:array<int>>")
    right = T.StructType(
        [
            T.StructField("_twice_window", T.StringType()),
            T.StructField("b", _struct("y array<int>, x int")),
            T.StructField("a", T.IntegerType()),
        ]
    )
    assert schema_fingerprint(left) == schema_fingerprint(right)


def test_floats_are_named_at_any_depth() -> None:
    assert order_sensitive(_struct("a int, b double, c array<struct<x:float>>, d decimal(9,2)")) == ["b", "c"]


def test_the_text_form_is_stable_and_checked() -> None:
    digest = Digest(250000, 2**70, 7, "0123456789ab")
    assert digest.text == "250000-400000000000000000-7-0123456789ab"
    assert Digest.parse(digest.text) == digest
    with pytest.raises(DefinitionError, match="not a content digest"):
        Digest.parse("250000")
    with pytest.raises(DefinitionError, match="different schemas"):
        digest + Digest(1, 2, 3, "ff")
    assert digest + Digest.empty("ff") == digest
