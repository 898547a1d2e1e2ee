"""Tables without partitions, and inputs that somebody else writes: what changed outside is merged again."""

from __future__ import annotations

import pytest

from tests.backfill.conftest import Shop, day
from twice import Day, Merge, Pipeline, Table, Whole

pytestmark = pytest.mark.spark


def people(shop: Shop) -> Pipeline:
    """Merge all orders into one table, and count them in another."""
    pipeline = Pipeline("shop", grain=Day)
    merged = Table(shop.lab.name("merged"), key=["id"], write=Merge(version="n"))
    whole = Table(shop.lab.name("whole"), write=Whole())
    pipeline.sql("merged", reads={"raw": shop.raw}, writes=merged, query="select id, n from raw")
    pipeline.sql("whole", reads={"raw": shop.raw}, writes=whole, query="select count(*) as orders from raw")
    return pipeline


def needed(shop: Shop, pipeline: Pipeline) -> dict[str, list[str]]:
    plan = shop.project(pipeline).planner(shop.request(1, 4)).plan()
    return {step.step.name: [unit.window.start.date().isoformat() for unit in step.needed] for step in plan.steps}


@pytest.mark.full
def test_rows_that_came_to_an_input_of_somebody_else_are_merged(shop):
    shop.land(3)
    pipeline = people(shop)
    assert shop.backfill(1, 4, pipeline).status == "done"
    assert needed(shop, pipeline) == {"merged": [], "whole": []}

    shop.lab.insert("raw", f"values (100, date'{day(2)}', 1, 1)")
    assert needed(shop, pipeline) == {"merged": [day(2)], "whole": []}
    shop.lab.insert("raw", f"values (101, date'{day(3)}', 1, 1)")
    assert needed(shop, pipeline) == {"merged": [day(2), day(3)], "whole": [day(3)]}

    assert shop.backfill(1, 4, pipeline).status == "done"
    assert {100, 101} <= {row.id for row in shop.lab.read("merged").collect()}
    assert shop.lab.read("whole").first().orders == 5
    assert shop.backfill(1, 4, pipeline).status == "nothing to do"
    assert shop.lab.run(pipeline, day(2)).status == "done"


@pytest.mark.full
def test_what_changed_for_one_tenant_is_merged_for_that_tenant(shop):
    rows = f"values (0, date'{day(1)}', 'a', 1), (1, date'{day(1)}', 'b', 1)"
    columns = "id bigint, d date, tenant string, n bigint"
    raw = shop.lab.source("tenants", columns, rows, by="d, tenant", dimensions=["tenant"])
    pipeline = Pipeline("shop", grain=Day)
    merged = Table(shop.lab.name("merged"), key=["id"], write=Merge(version="n"), dimensions=["tenant"])
    pipeline.sql("merged", reads={"raw": raw}, writes=merged, query="select id, n, tenant from raw")
    mine = {"dimensions": {"tenant": "a"}}
    assert shop.backfill(1, 2, pipeline, **mine).status == "done"
    shop.lab.insert("tenants", f"values (7, date'{day(1)}', 'b', 1)")
    assert shop.backfill(1, 2, pipeline, **mine).status == "nothing to do"
    shop.lab.insert("tenants", f"values (8, date'{day(1)}', 'a', 1)")
    assert shop.backfill(1, 2, pipeline, **mine).status == "done"
    assert {row.id for row in shop.lab.read("merged").collect()} == {0, 8}
