"""Rebuild, on every store that merges: the table made anew in one publish, or left as it is."""

from __future__ import annotations

import pytest

from twice import Day, Merge, Pipeline, Table
from twice.engine.operations.rebuilding import plan_rebuild, rebuild

pytestmark = [pytest.mark.spark, pytest.mark.in_scenarios, pytest.mark.needs("merge")]


def merging(tables, raw: Table, query: str) -> Pipeline:
    pipeline = Pipeline("rebuilt", grain=Day)
    pipeline.sql("t", reads={"raw": raw}, writes=tables.table(key=["id"], write=Merge(version="v")), query=query)
    return pipeline


def test_a_merged_table_is_made_anew_from_its_windows(tables):
    lab = tables.lab
    rows = """values (1, date'2026-04-20', 1, 1), (9, date'2026-04-20', 1, 9), (1, date'2026-04-21', 2, 2),
        (3, date'2026-04-21', 1, 3)"""
    raw = lab.source("raw", "id bigint, d date, v int, n int", rows)
    pipeline = merging(tables, raw, "select id, v, n from raw")

    def again(made: Pipeline):
        return rebuild(lab.runtime, plan_rebuild(lab.ledger, made, made.steps["t"]))

    for day in ("2026-04-21", "2026-04-20"):
        lab.run(pipeline, day)
    with tables.untouched():
        assert again(pipeline).status == "unchanged"

    found = again(merging(tables, raw, "select id, v, n + 10 as n from raw where id <> 9"))

    assert (found.status, found.rows) == ("published", 2)
    assert tables.rows("id", "n") == [(1, 12), (3, 13)]
    tables.picture("t")  # nothing is left over, nothing is held
