"""How rows outside the scope are named by stores that keep an empty text of a partition column as null."""

from __future__ import annotations

from datetime import date

from twice import Day, Overwrite, Table
from twice.store import strays

TABLE = Table("s.core.t", partition=Day("d"), dimensions=["tenant"], key=["id"], write=Overwrite())


def test_a_null_in_a_dimension_may_be_an_empty_text_and_the_store_says_that_it_cannot_tell():
    found = strays.outside(TABLE, [{"d": date(2026, 4, 25), "tenant": None}], 3, ["f"], kind="delta")
    assert found.values == ("d=2026-04-25, tenant=null or an empty text",)
    assert "a delta store cannot tell an empty text in tenant from null" in found.hint


def test_a_null_day_is_a_null_and_needs_no_hint():
    found = strays.outside(TABLE, [{"d": None, "tenant": "acme"}, {"d": "x", "tenant": "acme"}], 2, [], kind="delta")
    assert found.values == ("d=null, tenant=acme", "d=x, tenant=acme")
    assert found.hint == ""
