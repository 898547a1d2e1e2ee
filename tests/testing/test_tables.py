"""Small tables from literals: what texts become, and what is refused, in one sentence each."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from twice import Day, Table
from twice.errors import UsageError
from twice.testing import table_of

pytestmark = pytest.mark.spark


def rows(frame):
    return [tuple(row) for row in frame.collect()]


def test_texts_become_what_the_schema_declares(spark):
    frame = table_of(
        "id BIGINT, small TINYINT, paid DECIMAL(9,2), d DATE, ok BOOLEAN, rate DOUBLE, name STRING, raw BINARY",
        [
            ("1", 2, "9.90", "2026-04-25", "true", "0.5", "a", "b"),
            (3, None, 7, date(2026, 4, 26), False, 1, None, b"c"),
        ],
        spark=spark,
    )
    assert rows(frame) == [
        (1, 2, Decimal("9.90"), date(2026, 4, 25), True, 0.5, "a", b"b"),
        (3, None, Decimal("7.00"), date(2026, 4, 26), False, 1.0, None, b"c"),
    ]


def test_times_without_a_zone_are_of_the_zone_that_is_given_whatever_the_machine_is_set_to(spark):
    texts = [("2026-04-25 10:00:00",), ("2026-04-25T10:00:00Z",), ("2026-04-25T10:00:00+02:00",)]
    times = [*texts, (datetime(2026, 4, 25, 10),)]

    def instants(**zone):
        frame = table_of("at TIMESTAMP", times, spark=spark, **zone)
        return [row[0] for row in frame.selectExpr("unix_seconds(at)").collect()]

    ten = int(datetime(2026, 4, 25, 10, tzinfo=timezone.utc).timestamp())
    assert instants() == [ten, ten, ten - 7200, ten]
    assert instants(time_zone="Europe/Berlin") == [ten - 7200, ten, ten - 7200, ten - 7200]
    plain = table_of("at TIMESTAMP_NTZ", [("2026-04-25 10:00",)], spark=spark)
    assert rows(plain) == [(datetime(2026, 4, 25, 10),)]


def test_nested_values_are_read_by_their_types_too(spark):
    schema = "id INT, lines ARRAY<STRUCT<sku: STRING, price: DECIMAL(5,2)>>, days MAP<STRING, DATE>"
    (found,) = table_of(
        schema, [(1, [{"sku": "a", "price": "1.50"}, ("b", None)], {"first": "2026-04-25"})], spark=spark
    ).collect()
    assert [tuple(line) for line in found.lines] == [("a", Decimal("1.50")), ("b", None)]
    assert found.days == {"first": date(2026, 4, 25)}


def test_schemas_and_rows_have_other_forms(spark):
    table = Table("lake.raw.orders", partition=Day("d"), schema={"id": "BIGINT", "d": "DATE"})
    expected = [(1, date(2026, 4, 25)), (2, None)]
    assert rows(table_of(table, [{"d": "2026-04-25", "id": 1}, {"id": 2}], spark=spark)) == expected
    assert rows(table_of({"id": "BIGINT", "d": "DATE"}, [(1, "2026-04-25"), (2, None)], spark=spark)) == expected
    empty = table_of("id BIGINT, d DATE", spark=spark)
    assert (empty.columns, empty.count()) == (["id", "d"], 0)


@pytest.mark.parametrize(
    ("schema", "row", "said"),
    [
        ("id BIGINT, d DATE", (1,), "row 1 has 1 values for 2 columns: id, d"),
        ("id BIGINT, d DATE", {"id": 1, "dd": 2}, "row 1 has a value for 'dd', which is not among the columns: id, d"),
        ("id BIGINT", "1", "row 1 must be a tuple or a dict, not '1'"),
        ("id BIGINT", ("x",), "row 1, id: 'x' does not fit bigint"),
        ("id BIGINT", (1.5,), "row 1, id: 1.5 does not fit bigint"),
        ("ok BOOLEAN", ("yes",), "row 1, ok: 'yes' does not fit boolean"),
        ("d DATE", ("25.04.2026",), "row 1, d: '25.04.2026' does not fit date"),
        ("d DATE", (datetime(2026, 4, 25),), "does not fit date"),
        ("at TIMESTAMP", ("soon",), "row 1, at: 'soon' does not fit timestamp"),
        ("at TIMESTAMP_NTZ", ("2026-04-25T10:00:00Z",), "does not fit timestamp_ntz"),
        ("paid DECIMAL(5,2)", ("9.905",), "row 1, paid: '9.905' does not fit decimal(5,2)"),
        ("paid DECIMAL(5,2)", ("1000.00",), "row 1, paid: '1000.00' does not fit decimal(5,2)"),
        ("paid DECIMAL(5,2)", ("NaN",), "row 1, paid: 'NaN' does not fit decimal(5,2)"),
        ("name STRING", (7,), "row 1, name: 7 does not fit string"),
        ("a ARRAY<INT>", ([1, "x"],), "row 1, a[1]: 'x' does not fit int"),
        ("a ARRAY<INT>", ("12",), "row 1, a: '12' does not fit array<int>"),
        ("m MAP<STRING, INT>", ([1],), "row 1, m: [1] does not fit map<string,int>"),
        ("s STRUCT<x: INT>", ((1, 2),), "row 1, s has 2 values for 1 columns: x"),
        ("n TINYINT", (300,), "the rows do not fit their schema: "),
        ("id BIGINT NOT NULL", (None,), "the rows do not fit their schema: "),
        ("id BIGINTT", (1,), "the declared schema cannot be read"),
        (Table("lake.raw.orders", partition=Day("d")), (1,), "lake.raw.orders declares no schema="),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(spark, schema, row, said):
    with pytest.raises(UsageError) as found:
        table_of(schema, [row], spark=spark)
    assert said in str(found.value)
    assert len(found.value.message.splitlines()) == 1
