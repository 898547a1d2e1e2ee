"""S16: the same natural key gives the same surrogate in Python, as a Spark column and in Spark SQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.keys import expand_keys, key_of, key_sql
from twice.errors import DefinitionError
from twice.model.keys import key_hash

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FIRST, LAST = datetime(1, 1, 1, tzinfo=timezone.utc), datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc)
TRICKY = [
    "",
    " ",
    "~",
    "a",
    "ab",
    "é",
    "😀",
    '"',
    "'",
    "\\",
    "\\n",
    "\n\t\r\0\x1f\x7f",
    "null",
    "1",
    "E-5",
    "\u2028",
]

decimal_types = [(1, 0), (12, 2), (18, 18), (38, 0), (38, 10), (38, 38)]


_WIDE = Context(prec=60)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal(unscaled).scaleb(-scale, _WIDE))


# One list of values per Spark type: hypothesis draws them all at once, Spark sees one table per type.
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "date": st.dates(),
    "binary": st.binary(max_size=100),
    **{f"decimal({p},{s})": _decimals(p, s) for p, s in decimal_types},
}
EXAMPLES: dict[str, list[Any]] = {
    "string": TRICKY,
    "date": [date.min, date.max, date(999, 12, 31), date(1582, 10, 10), date(1969, 12, 31)],
    "binary": [b"", b"\x00", b"\xff" * 100, "é".encode()],
    "decimal(38,38)": [Decimal(0), Decimal("1E-38"), Decimal("-1.5E-7"), Decimal("0.1")],
    "decimal(18,18)": [Decimal(0), Decimal("-1E-18"), Decimal("0.000001"), Decimal("0.0000001")],
    "decimal(12,2)": [Decimal("0.00"), Decimal("-0.50"), Decimal("100.00"), Decimal("1234567890.12")],
}


def _frame(spark: SparkSession, kind: str, values: list[Any]) -> DataFrame:
    schema = T.StructType([T.StructField("i", T.IntegerType()), T.StructField("v", T._parse_datatype_string(kind))])
    return spark.createDataFrame(list(enumerate(values)), schema)


@pytest.fixture(params=["true", "false"], ids=["ansi", "lenient"])
def ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session in both modes, far from UTC."""
    before = {name: spark.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))


def _agree(df: DataFrame, values: list[Any]) -> None:
    df.createOrReplaceTempView("keyed")
    found = df.select("i", key_of("v").alias("column"), F.expr(key_sql("v")).alias("sql")).collect()
    assert len(found) == len(values)
    wrong = [(values[row["i"]], row) for row in found if {row["column"], row["sql"]} != {key_hash(values[row["i"]])}]
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_python_column_and_sql_agree(ansi: SparkSession, kind: str) -> None:
    drawn: list[Any] = [None, *EXAMPLES.get(kind, [])]

    @settings(max_examples=150, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(KINDS[kind])
    def draw(value: Any) -> None:
        drawn.append(value)

    draw()
    _agree(_frame(ansi, kind, drawn), drawn)


def test_timestamps_agree_whatever_the_zone(ansi: SparkSession) -> None:
    span = (LAST - FIRST) // timedelta(microseconds=1)
    drawn = [
        FIRST, LAST, EPOCH, EPOCH - timedelta(microseconds=1), datetime(999, 5, 5, 1, 2, 3, 4, timezone.utc),
        datetime(1582, 10, 10, tzinfo=timezone.utc),
        # The same wall-clock hour twice in New York.
        datetime(2026, 11, 1, 5, 30, tzinfo=timezone.utc), datetime(2026, 11, 1, 6, 30, tzinfo=timezone.utc),
    ]  # fmt: skip

    @settings(max_examples=150, database=None, phases=[Phase.generate])
    @given(st.integers(0, span))
    def draw(micros: int) -> None:
        drawn.append(FIRST + timedelta(microseconds=micros))

    draw()
    micros = [(value - EPOCH) // timedelta(microseconds=1) for value in drawn]
    _agree(_frame(ansi, "bigint", micros).withColumn("v", F.timestamp_micros("v")), drawn)
    assert len({key_hash(value) for value in drawn}) == len(set(drawn))


def test_composite_keys_agree_and_do_not_run_together(ansi: SparkSession) -> None:
    rows = [("ab", "c", 1), ("a", "bc", 1), (None, "", 1), ("", None, 1), (None, None, None), ("1", "1", 1)]
    df = ansi.createDataFrame(rows, "a string, b string, c int")
    df.createOrReplaceTempView("pairs")
    column = [row[0] for row in df.select(key_of("a", F.col("b"), F.col("c").cast("decimal(9,2)"))).collect()]
    text = [row[0] for row in ansi.sql(expand_keys("select Key_of(a, b, c) from pairs")).collect()]
    assert column == text == [key_hash(*row) for row in rows]
    assert len(set(column)) == len(rows)


def test_named_markers_and_literals_work_in_sql(spark: SparkSession) -> None:
    query = expand_keys("select key_of(:day, null, 1.50, 'it') as k")
    found = spark.sql(query, args={"day": date(2026, 4, 25)}).first()
    assert found is not None
    assert found["k"] == key_hash(date(2026, 4, 25), None, Decimal("1.5"), "it")


@pytest.mark.parametrize("kind", ["double", "float", "timestamp_ntz", "array<int>", "struct<a:int>", "interval day"])
def test_types_without_a_stable_key_are_refused(spark: SparkSession, kind: str) -> None:
    empty = spark.sql(f"select cast(null as {kind}) as v")
    for refused in (key_of("v"), F.expr(key_sql("v"))):
        with pytest.raises(
            Exception, match="key_of cannot make a key of a column of type " + kind.split("<", maxsplit=1)[0]
        ):
            empty.select(refused).collect()


@pytest.mark.parametrize("arguments", [(), ("*",), ("t.*",), (1,), (None,)])
def test_a_key_of_nothing_is_refused(spark: SparkSession, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(DefinitionError, match="column"):
        key_of(*arguments)


def test_only_one_branch_is_left_in_the_plan(spark: SparkSession) -> None:
    plan = spark.range(1).select(key_of("id").alias("k"))._jdf.queryExecution().optimizedPlan().toString()
    assert "CASE" not in plan
    assert "to_json" not in plan


def test_keys_module_needs_no_spark() -> None:
    code = "import sys, twice.content.keys, twice.model.keys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
