"""A range built unseen, looked at, swapped in while people read, or dropped."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import date

import pytest

from tests.backfill.conftest import Shop, day, january
from tests.support.processes import until
from twice import Day, Overwrite, Pipeline, Table
from twice.backfills.request import Request
from twice.backfills.shadows import ShadowOf
from twice.engine.operations import shadowing
from twice.errors import StoreRefused, UsageError
from twice.model.targets import Target

pytestmark = pytest.mark.spark


def shadow_of(shop: Shop, backfill: str, pipeline: Pipeline | None = None) -> ShadowOf:
    return ShadowOf(shop.runtime, pipeline or shop.pipeline, shop.lab.ledger.backfills.get(backfill))


def totals(shop: Shop) -> tuple[int, int]:
    """What a reader makes of both tables: the sum of all facts, and of all sums."""
    spark = shop.lab.spark.newSession()
    return tuple(spark.table(table.name).selectExpr("sum(n)").first()[0] for table in (shop.facts, shop.sums))


class Readers(threading.Thread):
    """Read both tables again and again; remember every total that was seen."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(daemon=True)
        self.shop, self.seen, self.over = shop, [], threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            self.seen.append(totals(self.shop))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        self.join(60)


def test_s30_readers_see_the_old_range_until_the_swap_then_the_new_one_and_never_a_mixture(shop):
    shop.land(6)
    shop.backfill(1, 7)
    new = shop.build(fixed=[2, 3, 4])
    before = totals(shop)

    with Readers(shop) as readers:
        summary = shop.backfill(1, 7, new, shadow=True)
        assert summary.status == "done", list(summary.lines)
        assert "twice backfill diff" in summary.next_step
        assert summary.pipeline == "shop"
        assert totals(shop) == before
        facts, sums = shadow_of(shop, summary.backfill, new).diff()
        shadow_of(shop, summary.backfill, new).swap()
        after = totals(shop)

    assert after[0] == after[1] != before[0]
    # Each table changes in one step, facts before the sums that are made from them.
    assert set(readers.seen) <= {before, (after[0], before[1]), after}
    assert {before, after} <= {*readers.seen, after}
    assert (list(facts.partitions), facts.same) == ([day(2), day(3), day(4)], 3)
    assert [(found.added, found.removed, found.changed) for found in facts.partitions.values()] == [(0, 0, 4)] * 3
    old, now = facts.partitions[day(2)].sums["n"]
    assert now == 2 * old
    assert list(sums.partitions) == [day(2), day(3), day(4)]
    # The tables are as if the fix had been run on them: nothing is stale, and nothing is left of the shadow.
    assert shop.backfill(1, 7, new).status == "nothing to do"
    assert shop.lab.refs(shop.facts.name.split(".")[-1]) == ["main"]
    assert {lease.table for lease in shop.lab.ledger.leases.list()} == set()


@pytest.mark.crash
@pytest.mark.full
def test_s30_a_swap_that_is_killed_between_two_tables_shows_how_far_it_is_and_goes_on(shop, start_child):
    shop.land(4)
    shop.backfill(1, 5)
    before = shop.digests()
    shop.backfill(1, 5, shop.build(fixed=[2]))
    summary = shop.backfill(1, 5, shadow=True)
    assert shop.digests() != before

    child = start_child(shop.lab, backfill=summary.backfill, swap=True, fail_point="swap.table:kill")

    end = child.end()
    assert end["exit"] == -signal.SIGKILL, end
    info = shop.lab.ledger.backfills.get(summary.backfill)
    assert (info.shadow.state, set(info.shadow.swapped)) == ("swapping", set())
    with pytest.raises(UsageError, match="is partly swapped"):
        shadow_of(shop, summary.backfill).drop()
    end = start_child(shop.lab, backfill=summary.backfill, swap=True).end()
    assert end["exit"] == 0, end
    info = shop.lab.ledger.backfills.get(summary.backfill)
    assert (info.shadow.state, set(info.shadow.swapped)) == ("swapped", {shop.facts.name, shop.sums.name})
    assert shop.digests() == before


@pytest.mark.full
def test_a_shadow_holds_nobody_up_and_is_not_put_over_what_others_published_meanwhile(shop):
    shop.land(4)
    shop.backfill(1, 5)
    new = shop.build(fixed=[1, 2, 4])
    summary = shop.backfill(1, 5, new, shadow=True)
    fixed = shop.build(fixed=[3])
    shop.lab.run(fixed, day(3))
    before = totals(shop)

    with pytest.raises(UsageError, match=f"{day(3)} changed after the shadow began") as refused:
        shadow_of(shop, summary.backfill, new).swap()

    assert "--force" in refused.value.next_step
    assert totals(shop) == before
    shadow_of(shop, summary.backfill, new).swap(force=True)
    assert totals(shop)[0] == totals(shop)[1] != before[0]


@pytest.mark.full
def test_what_somebody_wrote_by_hand_meanwhile_is_noticed_too(shop):
    shop.land(3)
    shop.backfill(1, 4)
    shop.lab.spark.sql(f"delete from {shop.facts.name} where id = 0")
    new = shop.build(fixed=[1, 2, 3])
    first, second = (shop.backfill(1, 4, new, shadow=True).backfill for _ in range(2))
    shop.lab.spark.sql(f"delete from {shop.facts.name} where id = 5")
    with pytest.raises(UsageError, match=rf"{day(2)} changed after the shadow began \(by hand\)"):
        shadow_of(shop, first, new).swap()
    # What was there before it began is what it was built to replace
    shadow_of(shop, first, new).drop()
    shop.lab.run(shop.pipeline, day(2))
    shadow_of(shop, second, new).swap(force=True)
    assert len(shop.lab.rows("facts")) == 12


@pytest.mark.full
def test_an_unfinished_shadow_is_not_swapped_and_can_be_completed(shop):
    shop.land(4)
    shop.backfill(1, 5)
    summary = shop.backfill(1, 5, shop.build(bad=[3]), shadow=True)
    assert summary.status == "partly"
    assert "--restart" in summary.next_step
    with pytest.raises(UsageError, match="is not finished: it is partly"):
        shadow_of(shop, summary.backfill).swap()
    with pytest.raises(UsageError, match="has ended"):
        shop.lab.ledger.backfills.join(summary.backfill, ttl=shop.runtime.lease)

    new = shop.build(fixed=[3])
    info = shop.lab.ledger.backfills.get(summary.backfill)
    summary = shop.project(new).go_on(info, restart=True)

    assert summary.status == "done", list(summary.lines)
    facts, _ = shadow_of(shop, summary.backfill, new).diff()
    assert list(facts.partitions) == [day(3)]


@pytest.mark.full
def test_a_shadow_that_adds_a_column_and_is_dropped_leaves_the_columns_as_they_were(shop):
    shop.land(3)
    shop.backfill(1, 4)
    new = Pipeline("shop", grain=Day)
    new.sql("facts", reads={"raw": shop.raw}, writes=shop.facts, query="select id, d, customer, n, 1 as more from raw")
    summary = shop.backfill(1, 4, new, shadow=True)
    assert summary.status == "done", list(summary.lines)
    # Nightly runs of the old code go on meanwhile
    for number in (2, 3):
        assert shop.lab.run(shop.build(fixed=[number]), day(number)).status == "done"
    shadow_of(shop, summary.backfill, new).drop()
    assert shop.lab.read("facts").columns == ["id", "d", "customer", "n"]
    assert len(shop.lab.rows("facts")) == 12
    assert shop.lab.refs("facts") == ["main"]
    with pytest.raises(UsageError, match="nothing to compare"):
        list(shadow_of(shop, summary.backfill, new).diff())


@pytest.mark.crash
@pytest.mark.full
def test_a_shadow_that_was_killed_while_it_began_begins_again_with_what_is_there_now(shop, start_child):
    shop.land(4)
    shop.backfill(1, 5)
    child = start_child(shop.lab, shadow=True, first=3, days=4, fail_point="shadow.forked:kill")
    assert child.end()["exit"] == -signal.SIGKILL
    (info,) = (each for each in shop.lab.ledger.backfills.list() if each.shadow)
    # A night passes: a day before the range is published anew
    shop.lab.spark.sql(f"delete from {shop.raw.name} where id = 4")
    shop.lab.run(shop.pipeline, day(2))

    summary = shop.project().go_on(info)

    assert summary.status == "done", list(summary.lines)
    branch = shop.lab.spark.read.option("branch", f"twice_shadow_{info.id}").table(shop.facts.name)
    assert branch.where(f"d = date'{day(2)}'").count() == 3
    now, inherited = (
        {output.scope: output.digest for output in shop.lab.ledger.outputs.list(name, january(1, 3))}
        for name in (shop.facts.name, info.shadow.tables[shop.facts.name])
    )
    assert inherited == now
    shadow_of(shop, info.id).drop()


@pytest.mark.crash
@pytest.mark.full
def test_processes_that_begin_a_shadow_at_once_begin_it_once(shop, start_child):
    shop.land(4)
    shop.backfill(1, 5)
    ledger = shop.lab.ledger
    first = start_child(shop.lab, shadow=True, first=3, days=4, fail_point="shadow.forked:pause")
    first.until_stopped()
    (info,) = (each for each in ledger.backfills.list() if each.shadow)
    second = start_child(shop.lab, backfill=info.id)
    until(lambda: len(ledger.backfills.get(info.id).workers) == 2)
    time.sleep(1)
    # Only who forked it says what it began with
    assert ledger.outputs.list(info.shadow.tables[shop.facts.name]) == []

    os.kill(first.pid, signal.SIGCONT)

    assert [child.end()["exit"] for child in (first, second)] == [0, 0]
    assert len(ledger.outputs.list(info.shadow.tables[shop.facts.name])) == 4
    assert ledger.leases.list() == []


@pytest.mark.full
def test_a_swap_is_done_though_a_run_holds_another_day_and_what_it_cannot_clean_up_it_says(shop, monkeypatch):
    shop.land(4)
    shop.backfill(1, 5)
    new = shop.build(fixed=[1, 2])
    first, second = (shop.backfill(1, 3, new, shadow=True).backfill for _ in range(2))
    ledger, name, told = shop.lab.ledger, shop.facts.name, []
    nightly = Target.of(shop.facts, shop.request(4, 5).scope, new.zone).scope
    claim = ledger.leases.claim(name, [nightly], ttl=shop.runtime.lease, floor=100)

    shadow_of(shop, first, new).swap(report=told.append)
    assert shadow_of(shop, first, new).is_removed

    # A column that only the shadow has is nobody's business while a run is at work
    monkeypatch.setattr(shadowing, "PATIENCE", 0.0)
    shop.lab.spark.sql(f"alter table {name} add column more int")
    shop.lab.spark.sql(f"""alter table {name} set tblproperties ('twice.added@{second}' = '["more"]')""")
    shop.lab.ledger.backfills.finish(second, "done")
    done = shadow_of(shop, second, new).swap(force=True, report=told.append)
    assert [each.table for each in done] == [name, shop.sums.name]
    assert not shadow_of(shop, second, new).is_removed
    assert "the shadow's rows are not removed yet" in told[-1]

    ledger.leases.release(claim)
    assert shadow_of(shop, second, new).swap() == []
    assert shadow_of(shop, second, new).is_removed
    assert shop.lab.read("facts").columns == ["id", "d", "customer", "n"]


@pytest.mark.full
def test_swaps_are_paid_for_by_the_project_that_asked(shop):
    shop.land(2)
    summary = shop.backfill(1, 3, shadow=True, tags={"project": "apollo"})
    shadow_of(shop, summary.backfill).swap()
    assert {line.name for line in shop.lab.ledger.runs.costs("project", pipeline="shop")} == {"apollo"}


def with_column(shop: Shop, value: int, name: str = "more") -> Pipeline:
    """Define the facts with one more column."""
    pipeline = Pipeline("shop", grain=Day)
    query = f"select id, d, customer, n, {value} as {name} from raw"
    pipeline.sql("facts", reads={"raw": shop.raw}, writes=shop.facts, query=query)
    return pipeline


@pytest.mark.full
def test_a_column_that_two_shadows_add_outlives_the_first_of_them(shop):
    shop.land(3)
    shop.backfill(1, 4)
    one, two, other = with_column(shop, 1), with_column(shop, 2), with_column(shop, 3, "other")
    first, third, second = (shop.backfill(1, 4, new, shadow=True).backfill for new in (one, other, two))

    shadow_of(shop, first, one).drop()
    assert shop.lab.read("facts").columns == ["id", "d", "customer", "n", "more", "other"]
    shadow_of(shop, second, two).swap()

    assert {row.more for row in shop.lab.read("facts").collect()} == {2}
    # What the third one added is its own still
    shadow_of(shop, third, other).drop()
    assert shop.lab.read("facts").columns == ["id", "d", "customer", "n", "more"]


@pytest.mark.full
def test_a_shadow_whose_column_was_dropped_meanwhile_is_not_swapped_in(shop):
    shop.land(3)
    shop.backfill(1, 4)
    new = with_column(shop, 1)
    summary = shop.backfill(1, 4, new, shadow=True)
    shop.lab.spark.sql(f"alter table {shop.facts.name} drop column more")
    before = shop.lab.rows("facts")
    with pytest.raises(StoreRefused, match="built with the column more, which was dropped"):
        shadow_of(shop, summary.backfill, new).swap()
    assert shop.lab.rows("facts") == before
    shadow_of(shop, summary.backfill, new).drop()


@pytest.mark.full
def test_a_table_that_two_shadows_need_goes_with_the_last_of_them(shop):
    shop.land(3)
    first, second = (shop.backfill(1, 4, shadow=True).backfill for _ in range(2))
    shadow_of(shop, first).drop()
    assert [found.same for found in shadow_of(shop, second).diff()] == [0, 0]
    shadow_of(shop, second).drop()
    assert not shop.lab.spark.catalog.tableExists(shop.facts.name)


@pytest.mark.full
def test_landed_data_is_read_as_it_is_and_must_be_there(lab):
    shop = Shop(lab)
    fetched = []
    pipeline = Pipeline("shop", grain=Day)
    raw = Table(lab.name("landed"), partition=Day("d"), write=Overwrite(), schema="id bigint, d date")
    facts = Table(lab.name("facts"), partition=Day("d"), key=["id"], write=Overwrite())

    @pipeline.extract(writes=raw)
    def landed(window):
        fetched.append(window)
        return [{"id": 1, "d": date.fromisoformat(window.start.date().isoformat())}]

    pipeline.sql("facts", reads={"raw": raw}, writes=facts, query="select * from raw")
    request = Request("shop", january(1, 4), shadow=True)
    with pytest.raises(UsageError, match="landed has not landed 3 partitions") as refused:
        shop.project(pipeline).start(request)
    assert "--step landed" in refused.value.next_step

    shop.project(pipeline).start(Request("shop", january(1, 4), steps=("landed",)))
    assert len(fetched) == 3
    assert shop.project(pipeline).start(request).status == "done"
    assert len(fetched) == 3
    with pytest.raises(UsageError, match="extracts alone"):
        shop.project(pipeline).start(Request("shop", january(1, 4), steps=("landed",), shadow=True))


def test_what_does_not_go_with_a_shadow_is_said(shop):
    with pytest.raises(UsageError, match="--only failed cannot be combined with --shadow"):
        shop.request(1, 4, only=("failed",), shadow=True)
    shop.land(2)
    summary = shop.backfill(1, 3)
    for verb in ("swap", "drop"):
        with pytest.raises(UsageError, match="has no shadow"):
            getattr(shadow_of(shop, summary.backfill), verb)()
