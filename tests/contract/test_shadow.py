"""Shadows, on every store that can: built unseen, compared, swapped in or dropped without a trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twice import Day, Merge, Overwrite, Pipeline, Table, Whole, Window, days
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.backfills.shadows import ShadowOf
from twice.errors import UsageError

pytestmark = [pytest.mark.spark, pytest.mark.in_scenarios, pytest.mark.needs("shadow")]


def shop(tables, query: str) -> Pipeline:
    """Facts of each day, and a sum that also looks at the day before."""
    pipeline = Pipeline("shadowed", grain=Day)
    raw = Table(tables.lab.name("raw"), partition=Day("d"))
    facts = tables.table("t", partition=Day("d"), key=["id"], write=Overwrite())
    both = tables.table("u", partition=Day("d"), write=Overwrite())
    pipeline.sql("t", reads={"raw": raw}, writes=facts, query=query)
    pipeline.sql(
        "u",
        reads={"t": facts.window(lookback=days(1))},
        writes=both,
        query="select cast(:window_start as date) as d, cast(sum(n) as bigint) as n, count(*) as id from t",
    )
    return pipeline


def land(tables) -> None:
    rows = "select id, date_add(date'2026-04-20', cast(id % 4 as int)), id from range(8)"
    tables.lab.source("raw", "id bigint, d date, n bigint", rows)


def project(tables, pipeline: Pipeline) -> Project:
    return Project(tables.lab.runtime, pipeline)


def middle(pipeline: Pipeline, **how) -> Request:
    zone = pipeline.zone
    window = Window(Day.parse("2026-04-21", zone), Day.parse("2026-04-23", zone))
    return Request("shadowed", window, shadow=True, **how)


OLD = "select id, d, n from raw"
NEW = "select id, d, n + 10 as n from raw where id <> 5"


def test_a_shadow_is_built_unseen_and_swapped_in_at_once(tables):
    land(tables)
    old, new = shop(tables, OLD), shop(tables, NEW)
    for number in range(20, 24):
        tables.lab.run(old, f"2026-04-{number}")
    before = tables.rows("id", "n"), tables.place.rows("u", "id", "n")

    summary = project(tables, new).start(middle(new))

    assert summary.status == "done", list(summary.lines)
    assert (tables.rows("id", "n"), tables.place.rows("u", "id", "n")) == before
    shadow = ShadowOf(project(tables, new).runtime, new, tables.lab.ledger.backfills.get(summary.backfill))
    facts, sums = shadow.diff()
    seen = {name: (found.rows, found.added, found.removed, found.changed) for name, found in facts.partitions.items()}
    assert seen == {
        "2026-04-21": ((2, 1), 0, 1, 1),
        "2026-04-22": ((2, 2), 0, 0, 2),
    }
    assert facts.partitions["2026-04-22"].sums == {"n": (8, 28)}
    assert [found.rows for found in sums.partitions.values()] == [(1, 1), (1, 1)]

    assert [each.status for each in shadow.swap()] == ["published", "published"]

    assert tables.rows("id", "n") == [(0, 0), (1, 11), (2, 12), (3, 3), (4, 4), (6, 16), (7, 7)]
    # The first day of the range looks back at a day that the shadow did not build.
    assert sorted(tables.place.rows("u", "n", "id")) == [(4, 2), (15, 3), (18, 4), (39, 3)]
    tables.picture("t")
    tables.picture("u")
    assert tables.lab.ledger.backfills.get(summary.backfill).shadow.state == "swapped"
    # As if it had been made in place: nothing is stale.
    again = project(tables, new).start(replace(middle(new), shadow=False))
    assert again.status == "nothing to do", [*again.lines]


def test_a_dropped_shadow_leaves_nothing_behind(tables):
    land(tables)
    old, new = shop(tables, OLD), shop(tables, NEW)
    for number in range(20, 24):
        tables.lab.run(old, f"2026-04-{number}")
    with tables.untouched("t"), tables.untouched("u"):
        before = tables.place.everything()
        summary = project(tables, new).start(middle(new))
        assert tables.place.everything() != before
        info = tables.lab.ledger.backfills.get(summary.backfill)
        ShadowOf(project(tables, new).runtime, new, info).drop()
        assert tables.place.everything() == before
    with pytest.raises(UsageError, match="is already dropped"):
        ShadowOf(project(tables, new).runtime, new, tables.lab.ledger.backfills.get(summary.backfill)).swap()


def test_the_shadow_of_a_table_that_is_not_there_yet_can_be_swapped_in_or_dropped(tables):
    land(tables)
    new = shop(tables, NEW)
    summary = project(tables, new).start(middle(new))
    info = tables.lab.ledger.backfills.get(summary.backfill)
    ShadowOf(project(tables, new).runtime, new, info).drop()
    table = new.steps["t"].writes
    assert not tables.store(table).exists(tables.lab.spark, table)

    summary = project(tables, new).start(middle(new))
    ShadowOf(project(tables, new).runtime, new, tables.lab.ledger.backfills.get(summary.backfill)).swap()

    assert tables.rows("id", "n") == [(1, 11), (2, 12), (6, 16)]


def test_a_whole_table_that_is_newer_than_the_range_stays_and_the_rest_is_swapped_in(tables):
    land(tables)
    pipeline = Pipeline("shadowed", grain=Day)
    raw = Table(tables.lab.name("raw"), partition=Day("d"))
    dim = tables.table("t", key=["id"], write=Whole())
    facts = tables.table("u", partition=Day("d"), key=["id"], write=Overwrite())
    pipeline.sql("t", reads={"raw": raw.latest()}, writes=dim, query="select id, n, :window_start as since from raw")
    pipeline.sql(
        "u",
        reads={"raw": raw, "t": dim.latest()},
        writes=facts,
        query="select r.id, r.d, t.n from raw r join t using (id)",
    )
    for number in (21, 22, 23):
        tables.lab.run(pipeline, f"2026-04-{number}")
    before = tables.rows("id", "n")

    summary = project(tables, pipeline).start(middle(pipeline, only=("all",)))

    assert summary.status == "done", list(summary.lines)
    shadow = ShadowOf(project(tables, pipeline).runtime, pipeline, tables.lab.ledger.backfills.get(summary.backfill))
    whole, _ = shadow.diff()
    assert (whole.partitions, whole.same) == ({}, 1)
    assert [each.status for each in shadow.swap()] == ["superseded", "unchanged"]
    assert shadow.is_removed
    assert tables.rows("id", "n") == before
    assert len(tables.place.rows("u", "id")) == 6


@pytest.mark.needs("merge")
def test_a_merged_table_has_no_shadow(tables):
    pipeline = Pipeline("shadowed", grain=Day)
    raw = Table(tables.lab.name("raw"), partition=Day("d"))
    table = tables.table(key=["id"], write=Merge(version="n"))
    pipeline.sql("t", reads={"raw": raw}, writes=table, query=OLD)
    with pytest.raises(UsageError, match="merges into"):
        project(tables, pipeline).start(middle(pipeline))
