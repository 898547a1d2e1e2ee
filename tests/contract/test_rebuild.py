"""Rebuild, on every store that merges: the table made anew in one publish, or left as it is."""

from __future__ import annotations

import pytest

from twice import Day, Merge, Pipeline, Table
from twice.api import run
from twice.engine.rebuilding import plan_rebuild, rebuild
from twice.engine.run import Workshop
from twice.engine.stores import Stores

pytestmark = [pytest.mark.spark, pytest.mark.in_scenarios, pytest.mark.needs("merge")]


def merging(ground, query: str) -> Pipeline:
    pipeline = Pipeline("rebuilt", grain=Day)
    raw = Table(ground.lab.name("raw"), partition=Day("d"))
    pipeline.sql("t", reads={"raw": raw}, writes=ground.table(key=["id"], write=Merge(version="v")), query=query)
    return pipeline


def test_a_merged_table_is_made_anew_from_its_windows(ground):
    lab, shop = ground.lab, Workshop(ground.lab.spark, Stores(ground.config), ground.lab.ledger)
    raw = lab.name("raw")
    lab.spark.sql(f"create table {raw} (id bigint, d date, v int, n int) using iceberg partitioned by (d)")
    lab.spark.sql(
        f"insert into {raw} values (1, date'2026-04-20', 1, 1), (9, date'2026-04-20', 1, 9), "
        "(1, date'2026-04-21', 2, 2), (3, date'2026-04-21', 1, 3)"
    )
    pipeline = merging(ground, "select id, v, n from raw")

    def again(made: Pipeline):
        return rebuild(shop, plan_rebuild(lab.ledger, made, made.steps["t"]))

    for day in ("2026-04-21", "2026-04-20"):
        run(pipeline, for_=day, spark=lab.spark, ledger=lab.ledger, config=ground.config)
    with ground.untouched():
        assert again(pipeline).status == "unchanged"

    found = again(merging(ground, "select id, v, n + 10 as n from raw where id <> 9"))

    assert (found.status, found.rows) == ("published", 2)
    assert ground.rows("id", "n") == [(1, 12), (3, 13)]
    ground.picture("t")  # nothing is left over, nothing is held
