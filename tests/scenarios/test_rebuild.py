"""Rebuild: a merged table rebuilt from its history, in one commit."""

from __future__ import annotations

import pytest

from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Table
from twice.engine.operations.rebuilding import plan_rebuild, rebuild
from twice.engine.status import status
from twice.errors import MergeRefused, UsageError

pytestmark = pytest.mark.spark

RAW = "id bigint, d date, v int, name string"
ROWS = """values (1, date'2026-04-01', 1, 'ann'), (2, date'2026-04-01', 1, 'bob'), (9, date'2026-04-01', 1, 'bug'),
    (1, date'2026-04-02', 2, 'anna'), (3, date'2026-04-02', 1, 'cid'), (2, date'2026-04-03', 1, 'bob')"""


def people(lab, raw, query: str = "select id, v, name from raw", write=None, store: str = "lake") -> Pipeline:
    pipeline = Pipeline("people", grain=Day)
    name = lab.name("people") if store == "lake" else f"{store}.{lab.space}.people"
    table = Table(name, key=["id"], write=write or Merge(version="v"))
    pipeline.sql("people", reads={"raw": raw}, writes=table, query=query)
    return pipeline


def run_days(lab, pipeline, *days: int) -> None:
    for day in days:
        lab.run(pipeline, f"2026-04-{day:02d}")


def again(lab, pipeline):
    return rebuild(lab.runtime, plan_rebuild(lab.ledger, pipeline, pipeline.steps["people"]), command="twice rebuild")


def names(lab) -> dict[int, str]:
    return {row["id"]: row["name"] for row in lab.rows("people")}


@pytest.mark.full
def test_what_a_corrected_step_no_longer_returns_is_gone(lab):
    raw = lab.source("raw", RAW, ROWS)
    run_days(lab, people(lab, raw), 2, 1, 3)
    assert names(lab) == {1: "anna", 2: "bob", 3: "cid", 9: "bug"}
    fixed = people(lab, raw, "select id, v, upper(name) as name from raw where name <> 'bug'")
    before = len(lab.versions("people"))

    found = again(lab, fixed)

    assert (found.status, found.rows, found.windows) == ("published", 3, 3)
    assert names(lab) == {1: "ANNA", 2: "BOB", 3: "CID"}
    assert len(lab.versions("people")) == before + 1
    assert lab.refs("people") == ["main"]
    windows = {row["id"]: row["_twice_window"] for row in lab.rows("people")}
    assert windows == {1: "2026-04-02/2026-04-03", 2: "2026-04-01/2026-04-02", 3: "2026-04-02/2026-04-03"}
    kept = lab.ledger.runs.get(found.run)
    assert (kept.command, kept.status, kept.tags) == ("twice rebuild", "done", {"rebuild": lab.name("people")})
    assert lab.ledger.leases.list() == []
    (step,) = status(lab.ledger, fixed)
    assert step.counts == {"done": 1}


def test_a_rebuild_equals_the_merges_one_after_the_other(lab):
    raw = lab.source("raw", RAW, ROWS)
    pipeline = people(lab, raw)
    run_days(lab, pipeline, 3, 1, 2)
    versions, held = lab.versions("people"), lab.ledger.outputs.list(lab.name("people"))[0].digest

    found = again(lab, pipeline)

    assert found.status == "unchanged"
    assert lab.versions("people") == versions
    assert lab.ledger.outputs.list(lab.name("people"))[0].digest == held
    run_days(lab, pipeline, 1, 2, 3)
    assert lab.versions("people") == versions


@pytest.mark.full
def test_a_window_between_that_was_never_merged_is_merged_now(lab):
    raw = lab.source("raw", RAW, ROWS)
    pipeline = people(lab, raw)
    run_days(lab, pipeline, 1, 3)
    assert names(lab) == {1: "ann", 2: "bob", 9: "bug"}
    found = again(lab, pipeline)
    assert (found.status, found.windows) == ("published", 3)
    assert names(lab) == {1: "anna", 2: "bob", 3: "cid", 9: "bug"}


@pytest.mark.full
def test_many_windows_are_replayed_in_rounds(lab, monkeypatch):
    monkeypatch.setattr("twice.engine.operations.rebuilding.AT_ONCE", 1)
    raw = lab.source("raw", RAW, ROWS)
    pipeline = people(lab, raw)
    run_days(lab, pipeline, 1, 2, 3)
    assert again(lab, pipeline).status == "unchanged"


@pytest.mark.full
def test_a_key_without_a_decision_stops_it_and_the_table_stays(lab):
    raw = lab.source("raw", RAW, ROWS)
    run_days(lab, people(lab, raw), 1, 2, 3)
    torn = people(lab, raw, "select id, 1 as v, concat(name, d) as name from raw")
    with lab.untouched("people"), pytest.raises(MergeRefused, match="no version decides"):
        again(lab, torn)
    assert lab.ledger.leases.list() == []
    assert lab.ledger.runs.list(limit=1)[0].status == "failed"


@pytest.mark.parametrize("on_conflict", ["fail", "keep"])
@pytest.mark.full
def test_insert_only_keeps_what_the_first_window_brought(lab, on_conflict):
    raw = lab.source("raw", RAW, ROWS)
    write = InsertOnly(on_conflict=on_conflict)
    query = "select id, name from raw" + (" where id <> 1" if on_conflict == "fail" else "")
    pipeline = people(lab, raw, query, write)
    run_days(lab, pipeline, 1, 2, 3)
    before = names(lab)
    assert again(lab, pipeline).status == "unchanged"
    assert again(
        lab, people(lab, raw, query + (" and" if "where" in query else " where") + " id <> 9", write)
    ).rows == (len(before) - 1)
    assert names(lab) == {key: name for key, name in before.items() if key != 9}


def test_what_needs_no_rebuild_is_refused(lab):
    raw = lab.source("raw", RAW, ROWS)
    with pytest.raises(UsageError, match="nothing has been merged"):
        plan_rebuild(lab.ledger, people(lab, raw), people(lab, raw).steps["people"])
    pipeline = Pipeline("other", grain=Day)
    days = Table(lab.name("days"), partition=Day("d"), write=Overwrite())
    pipeline.sql("days", reads={"raw": raw}, writes=days, query="select * from raw")
    with pytest.raises(UsageError, match="needs no rebuild"):
        plan_rebuild(lab.ledger, pipeline, pipeline.steps["days"])

    @pipeline.extract(writes=Table(lab.name("calls"), key=["id"], write=InsertOnly()))
    def calls(window):
        return []

    with pytest.raises(UsageError, match="fetched from outside"):
        plan_rebuild(lab.ledger, pipeline, pipeline.steps["calls"])
