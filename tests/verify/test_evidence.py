"""What differs is named: which kind of difference, in which columns, of which types."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from twice.verify.evidence import compare, kind_of

NOON = datetime(2026, 4, 25, 12)


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (None, 1, "null"),
        (0.1 + 0.2, 0.3, "float noise"),
        (0.3, 0.4, "value"),
        (1, Decimal("1.0"), "scale"),
        (1, Decimal("1.1"), "value"),
        (NOON, NOON + timedelta(hours=2), "time-zone shift"),
        (NOON, NOON + timedelta(hours=5, minutes=45), "time-zone shift"),
        (NOON, NOON + timedelta(minutes=1), "value"),
        ([1, 2], [2, 1], "order"),
        ([1, 2], [2, 2], "value"),
        ("a", "b", "value"),
    ],
)
def test_the_kind_of_a_difference(left, right, kind):
    assert kind_of(left, right) == kind_of(right, left) == kind


@pytest.mark.spark
def test_columns_that_differ_in_their_types_alone_are_named(spark):
    left = spark.sql("select 1 as id, cast(2.5 as decimal(9,2)) as amount, 7 as n")
    right = spark.sql("select 1 as id, cast(2.5 as decimal(9,3)) as amount, 7 as n")
    found = compare(left, right, key=["id"])
    assert found.types == {"amount": ("decimal(9,2)", "decimal(9,3)")}
    assert found.text == "1 rows before, 1 after; amount: decimal(9,2) before, decimal(9,3) after"


@pytest.mark.spark
def test_each_column_says_how_many_rows_agree_and_a_value_that_is_no_number_equals_itself(spark):
    rows = "select id, if(id < 4, 'a', 'b') as t, double('nan') as x, {} as n from range(4)"
    found = compare(spark.sql(rows.format("id")), spark.sql(rows.format("if(id = 3, null, id)")), key=["id"])
    assert (found.changed, found.looked_at, list(found.shares())) == (1, 1, ["n: 75.0% agree; null (1)"])
    assert [(cell.column, cell.left, cell.right) for cell in found.cells] == [("n", "3", "null")]


@pytest.mark.spark
def test_of_many_rows_some_are_looked_at(spark):
    found = compare(
        spark.range(300).selectExpr("id", "1 as n"), spark.range(300).selectExpr("id", "2 as n"), key=["id"]
    )
    assert list(found.shares()) == ["n: 0.0% agree; value (200) in 200 of 300 rows"]
