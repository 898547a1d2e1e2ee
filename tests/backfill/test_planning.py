"""What a backfill would do, decided without Spark: what needs work, in which chunks, and why."""

from __future__ import annotations

import shlex
import time
from datetime import timedelta

import pytest

from tests.backfill.conftest import day, january
from twice import Day, Hour, Merge, Overwrite, Pipeline, Table, Whole, days
from twice.backfill.planning import Planner
from twice.backfill.request import Request, around
from twice.engine.fingerprint import fingerprint
from twice.engine.separating import Separability
from twice.errors import StoreRefused, UsageError
from twice.ledger import InputRecord, Output, open_ledger
from twice.model.scopes import Scope

YES = Separability(True, "declared")


class Desk:
    """A ledger that says what was done, and a planner that asks nobody else."""

    def __init__(self, folder) -> None:
        self.ledger = open_ledger(f"sqlite:///{folder}/ledger.db")
        self.raw = Table("lake.s.raw", partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")
        self.facts = Table("lake.s.facts", partition=Day("d"), key=["id"], write=Overwrite())
        self.sums = Table("lake.s.sums", partition=Day("d"), key=["id"], write=Overwrite())
        self.pipeline = Pipeline("shop", grain=Day)

        @self.pipeline.extract(writes=self.raw)
        def land(window):
            yield {"id": 1, "d": window.start.date()}

        @self.pipeline.step(reads={"raw": self.raw}, writes=self.facts)
        def facts(raw):
            return raw

        @self.pipeline.step(reads={"facts": self.facts.window(lookback=days(1))}, writes=self.sums)
        def sums(facts):
            return facts

    def plan(self, first=1, end=11, *, judge=lambda _stage: YES, weigh=lambda _stage: None, **how):
        request = Request("shop", january(first, end), **how)
        return Planner(self.ledger, self.pipeline, request, judge, weigh).plan()

    def planner(self, **how) -> Planner:
        return Planner(self.ledger, self.pipeline, Request("shop", january(1, 11), **how), lambda _stage: YES)

    def made(
        self, step: str, first: int, end: int, *, rows: int = 10, code: str = "", ok=True, dimensions=None
    ) -> None:
        """Record that a step has made some days."""
        found = self.pipeline.find(step)
        table, span = found.writes, january(first, end)
        run = self.ledger.start_run("shop", Scope.of(span, dimensions))
        units = list((table.partition.grain if table.partition else Day).partitions(span, self.pipeline.zone))
        scope = Scope.of(span if table.partition else None, dimensions)
        code = code or fingerprint(found)
        attempt = self.ledger.start_attempt(run, step, table.name, 1, scope, code=code)
        if not ok:
            self.ledger.finish_attempt(attempt, "failed", error="it rained")
            self.ledger.finish_run(run, "failed", "it rained")
            return
        inputs = tuple(
            InputRecord(name, read.table.name, "window", "1", {u.start.isoformat(): "digest:10-1-1-ab" for u in units})
            for name, read in found.reads.items()
        )
        scopes = [Scope.of(unit, dimensions) for unit in units] if table.partition else [Scope(None)]
        outputs = [
            Output(table.name, each, rows, f"{rows}-1-1-ab", "f", "1", "shop", step, code, inputs) for each in scopes
        ]
        claim = self.ledger.claim(table.name, [scope], ttl=timedelta(minutes=1), run=run)
        self.ledger.bind_attempt(attempt, claim, base_version=None, inputs=inputs)
        self.ledger.record(claim, attempt, outputs)
        self.ledger.finish_run(run, "done")


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def spans(step) -> list[str]:
    return [str(stage.scope) for stage in step.stages]


def test_everything_is_missing_at_first_and_separable_steps_share_jobs(desk):
    land, facts, sums = desk.plan().steps
    assert (land.partitions, len(land.stages), land.batching.ok) == (10, 10, False)
    assert "one partition per job" in land.batching.why
    assert facts.batching.ok
    assert "separable: declared" in facts.batching.why
    # Nothing is known of the rows: a first chunk is small, and all have about the same size
    assert spans(facts) == ["2026-01-01/2026-01-06", "2026-01-06/2026-01-11"]
    assert sums.counts == {"missing": 10}


def test_the_size_of_chunks_follows_the_rows_that_are_known(desk):
    desk.made("land", 1, 11, rows=600_000)
    assert [len(stage.target.partitions) for stage in desk.plan().steps[1].stages] == [2, 3, 2, 3]
    assert [len(stage.target.partitions) for stage in desk.plan(chunk=4).steps[1].stages] == [3, 3, 4]
    assert len(desk.plan(chunk=1).steps[1].stages) == 10
    # A source that nobody here makes is weighed
    desk.pipeline.steps.pop("land")
    found = desk.plan(weigh=lambda stage: 2_000_000.0 * len(stage.target.partitions)).steps[0]
    assert len(found.stages) == 10


def test_only_what_needs_work_is_made_and_gaps_are_not_bridged(desk):
    for step in ("land", "facts", "sums"):
        desk.made(step, 1, 11)
    assert desk.plan().nothing_to_do
    desk.made("facts", 3, 4, code="v2:old")
    desk.made("facts", 7, 9, ok=False)
    land, facts, sums = desk.plan().steps
    assert (land.needed, land.reused) == ((), 10)
    assert spans(facts) == ["2026-01-03/2026-01-04", "2026-01-07/2026-01-09"]
    assert facts.counts == {"done": 7, "stale": 1, "failed": 2}
    # Downstream reads a day back: what may have to be made again is said, and judged in its turn
    assert (sums.needed, sums.perhaps) == ((), 5)
    assert spans(desk.plan(only=("failed",)).steps[1]) == ["2026-01-07/2026-01-09"]
    # Without what is stale nothing more will come of it
    assert desk.plan(only=("failed",)).steps[2].perhaps == 0
    assert spans(desk.plan(only=("stale",)).steps[1]) == ["2026-01-03/2026-01-04"]
    assert [step.partitions for step in desk.plan(only=("all",)).steps] == [0, 10, 10]


def test_landed_raw_data_is_fetched_again_only_when_asked_for(desk):
    desk.made("land", 1, 6, code="v2:old")
    land = desk.plan().steps[0]
    assert (land.reused, land.partitions) == (5, 5)
    assert desk.plan(refetch=True).steps[0].partitions == 10
    assert desk.plan(refetch=True, only=("missing",)).steps[0].partitions == 5


def test_newest_first_turns_the_chunks_around(desk):
    facts = desk.plan(order="backward", steps=("facts",)).steps[0]
    assert spans(facts) == ["2026-01-06/2026-01-11", "2026-01-01/2026-01-06"]


def test_a_step_that_cannot_be_judged_yet_says_so(desk):
    def judge(stage):
        raise StoreRefused("lake.s.raw does not exist")

    facts = desk.plan(judge=judge).steps[1]
    assert facts.batching.why == "one partition per job: judged when its turn comes (lake.s.raw does not exist)"
    assert len(facts.stages) == 10


def test_what_reads_a_partition_that_was_not_made_is_held_back(desk):
    desk.made("land", 1, 11)
    bad = {"facts": [january(4, 5)]}
    sums = desk.planner().turn(desk.pipeline.find("sums"), bad)
    assert [(unit.window, why) for unit, why in sums.blocked] == [
        (january(4, 5), "step facts did not make its input"),
        (january(5, 6), "step facts did not make its input"),
    ]
    assert sums.partitions == 8
    assert spans(sums)[0].startswith("2026-01-01")


def test_a_step_that_builds_on_its_past_goes_forward_one_by_one(desk):
    table = Table("lake.s.state", partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")

    @desk.pipeline.step(
        reads={"facts": desk.facts, "past": table.window(lookback=days(1))}, writes=table, depends_on_past=True
    )
    def state(facts, past):
        return facts

    desk.made("state", 1, 11)
    desk.made("state", 8, 9, ok=False)
    found = desk.plan(order="backward", steps=("state",)).steps[0]
    # All that is built on the 8th is looked at again, in order
    assert spans(found) == [str(january(number, number + 1)) for number in (8, 9, 10)]
    assert (found.batching.in_order, found.batching.skip_fresh) == (True, True)
    held = desk.planner().turn(desk.pipeline.find("state"), {"facts": [january(9, 10)]})
    assert [unit.window for unit, _ in held.blocked] == [january(9, 10), january(10, 11)]


def test_what_this_backfill_has_made_is_not_made_again_though_its_code_changed(desk):
    desk.made("land", 1, 11)
    desk.made("facts", 1, 6, code="v2:old")
    facts = desk.planner().turn(desk.pipeline.find("facts"), {}, [january(1, 4)])
    assert [unit.window for unit in facts.needed] == [january(number, number + 1) for number in range(4, 11)]


def test_what_is_to_come_is_counted_without_asking_how(desk):
    desk.made("land", 1, 11)
    desk.made("facts", 1, 6)
    planner = desk.planner()
    planner.judge = None
    assert planner.expected(planner.steps) == {"land": 0, "facts": 5, "sums": 10}


def test_a_merged_table_is_made_once_over_the_union_of_windows(desk):
    people = Table("lake.s.people", key=["id"], write=Merge(version="v"))

    @desk.pipeline.step(reads={"raw": desk.raw}, writes=people)
    def merge(raw):
        return raw

    found = desk.plan(steps=("merge",)).steps[0]
    assert spans(found) == ["2026-01-01/2026-01-11"]
    assert found.batching.why.startswith("merged once, over the union of windows; twice rebuild lake.s.people")
    # Windows that were merged before are not merged again
    desk.made("merge", 1, 5)
    desk.made("merge", 6, 11)
    assert spans(desk.plan(steps=("merge",)).steps[0]) == ["2026-01-05/2026-01-06"]
    desk.made("merge", 5, 6)
    assert desk.plan(steps=("merge",)).nothing_to_do
    desk.made("merge", 2, 3, ok=False)
    desk.made("merge", 9, 10, code="v2:old")
    assert spans(desk.plan(steps=("merge",)).steps[0]) == ["2026-01-02/2026-01-03", "2026-01-09/2026-01-10"]


def test_a_merge_is_stale_where_its_input_changed(desk):
    people = Table("lake.s.people", key=["id"], write=Merge(version="v"))

    @desk.pipeline.step(reads={"raw": desk.raw}, writes=people)
    def merge(raw):
        return raw

    desk.made("land", 1, 11)
    desk.made("merge", 1, 11)
    assert desk.plan(steps=("merge",)).nothing_to_do
    desk.made("land", 4, 5, rows=11)
    assert spans(desk.plan(steps=("merge",)).steps[0]) == ["2026-01-04/2026-01-05"]


def test_a_whole_table_is_made_for_the_newest_window_only(desk):
    newest = Table("lake.s.newest", key=["id"], write=Whole())

    @desk.pipeline.step(reads={"raw": desk.raw}, writes=newest)
    def replace(raw):
        return raw

    assert spans(desk.plan(steps=("replace",)).steps[0]) == ["2026-01-10/2026-01-11"]
    desk.made("replace", 10, 11)
    assert desk.plan(steps=("replace",)).nothing_to_do


def test_a_table_of_a_finer_grain_is_made_in_whole_units(tmp_path):
    desk = Desk(tmp_path)
    hours = Table("lake.s.hours", partition=Hour("h"), key=["id"], write=Overwrite())

    @desk.pipeline.step(reads={"raw": desk.raw}, writes=hours)
    def by_hour(raw):
        return raw

    found = desk.plan(1, 4, steps=("by_hour",), chunk=48).steps[0]
    assert (found.partitions, [len(stage.target.partitions) for stage in found.stages]) == (72, [24, 48])


def test_a_tenant_is_judged_by_its_own_runs_and_by_those_of_all(desk):
    table = Table("lake.s.tenants", partition=Day("d"), key=["id"], write=Overwrite(), dimensions=["tenant"])

    @desk.pipeline.step(reads={"raw": desk.raw}, writes=table)
    def by_tenant(raw):
        return raw

    acme = {"tenant": "acme"}
    desk.made("by_tenant", 1, 4, dimensions=acme)
    assert desk.plan(steps=("by_tenant",), dimensions=acme).steps[0].counts == {"done": 3, "missing": 7}
    assert desk.plan(steps=("by_tenant",), dimensions={"tenant": "bolt"}).steps[0].counts == {"missing": 10}
    # One tenant's runs do not make a day for all of them
    assert desk.plan(steps=("by_tenant",)).steps[0].counts == {"missing": 10}
    desk.made("by_tenant", 3, 7)
    assert desk.plan(steps=("by_tenant",)).steps[0].counts == {"done": 4, "missing": 6}
    assert desk.plan(steps=("by_tenant",), dimensions={"tenant": "bolt"}).steps[0].counts == {"done": 4, "missing": 6}
    # One tenant that fails since makes the day a failed one
    desk.made("by_tenant", 5, 6, dimensions=acme, ok=False)
    assert desk.plan(steps=("by_tenant",)).steps[0].counts == {"done": 3, "failed": 1, "missing": 6}
    (stage, *_) = desk.plan(steps=("by_tenant",), dimensions=acme, only=("failed",)).steps[0].stages
    assert str(stage.scope) == "2026-01-05/2026-01-06 tenant=acme"


def test_a_choice_of_steps_is_widened_along_the_graph(desk):
    assert around(desk.pipeline, ["facts"], downstream=True, upstream=False) == ("facts", "sums")
    assert around(desk.pipeline, ["facts"], downstream=False, upstream=True) == ("land", "facts")
    assert around(desk.pipeline, ["sums"], downstream=False, upstream=True) == ("land", "facts", "sums")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"parallel": 0}, "at least one chunk"),
        ({"chunk": 0}, "at least one partition"),
        ({"only": ("fresh",)}, "choose from missing, failed, stale, all"),
        ({"tags": {"backfill": "x"}}, "holds the backfill's id"),
        ({"steps": ("nothing",)}, "has no step 'nothing'"),
        ({"dimensions": {"tenant": "acme"}}, "has no dimension 'tenant'"),
    ],
)
def test_what_makes_no_sense_is_refused(desk, how, words):
    with pytest.raises(UsageError, match=words):
        desk.plan(**how)


def test_a_request_is_read_back_as_it_was_written():
    request = Request(
        "shop", january(1, 5), ("facts",), {"tenant": "a"}, ("all",), "backward", 3, 7, "slow", {"project": "x"}, True
    )
    assert Request.from_json(request.to_json()) == request


def test_the_command_that_goes_on_says_everything_that_matters(desk):
    request = Request("shop", january(1, 5), ("facts",), tags={"project": "x y"}, parallel=4, chunk=7)
    assert request.command(desk.pipeline, january(2, 3)) == (
        f"twice backfill start shop --from {day(2)} --to {day(3)} --step facts --tag 'project=x y' --parallel 4 "
        "--chunk 7"
    )


def test_ten_thousand_partitions_are_planned_quickly(tmp_path):
    desk = Desk(tmp_path)
    for step in ("land", "facts"):
        desk.made(step, 1, 10_001)
    started = time.process_time()
    plan = desk.plan(1, 10_001)
    assert time.process_time() - started < 5
    assert [step.partitions for step in plan.steps] == [0, 0, 10_000]


def test_the_command_that_goes_on_asks_for_the_same(desk):
    from twice.cli.backfill import start

    how = {
        "steps": ("facts",),
        "only": ("all",),
        "order": "backward",
        "parallel": 3,
        "chunk": 5,
        "pool": "slow",
        "tags": {"project": "re state"},
        "refetch": True,
        "accept_late": True,
    }
    request = Request("shop", january(1, 11), **how)
    words = shlex.split(request.command(desk.pipeline, january(3, 4)))
    assert words[:4] == ["twice", "backfill", "start", "shop"]
    read = start.make_context("start", words[3:]).params
    assert (read["from_"], read["to"]) == (day(3), day(4))
    assert (read["steps"], read["only"], read["order"], read["refetch"]) == (("facts",), ("all",), "backward", True)
    assert (read["parallel"], read["chunk"], read["pool"], read["accept_late"]) == (3, "5", "slow", True)
    assert read["tags"] == ("project=re state",)
    assert not read["shadow"]
    # Nothing more than was asked for
    plain = Request("shop", january(1, 11)).command(desk.pipeline, january(3, 4))
    assert plain == f"twice backfill start shop --from {day(3)} --to {day(4)}"
    # What was missing and failed is no longer missing
    assert Request("shop", january(1, 11), only=("missing",)).again.only == ("missing", "failed")
    assert Request("shop", january(1, 11), only=("all",)).again.only == ("all",)


def test_what_was_interrupted_is_as_good_as_it_was_before(desk):
    for step in ("land", "facts"):
        desk.made(step, 1, 4)
    facts = desk.pipeline.find("facts")
    run = desk.ledger.start_run("shop", Scope(january(1, 5)))
    row = desk.ledger.start_attempt(run, "facts", facts.writes.name, 1, Scope(january(1, 5)), code=fingerprint(facts))
    desk.ledger.finish_attempt(row, "interrupted")
    # Three days hold what they held; the fourth was never made
    assert desk.plan(1, 5).steps[1].counts == {"done": 3, "failed": 1}


def test_a_long_merge_is_weighed_by_its_days(desk):
    people = Table("lake.s.people", key=["id"], write=Merge(version="v"))

    @desk.pipeline.step(reads={"facts": desk.facts}, writes=people)
    def merge(facts):
        return facts

    # A merge of ten days for 100 executor seconds
    run = desk.ledger.start_run("shop", Scope(january(1, 11)))
    row = desk.ledger.start_attempt(run, "merge", people.name, 1, Scope(None), code="c")
    desk.ledger.finish_attempt(row, "published", details={"cost": {"executor_seconds": 100.0}})
    # Another ten days would cost about as much
    (merged,) = [step for step in desk.plan(11, 21).steps if step.step.name == "merge"]
    assert (merged.partitions, merged.seconds) == (10, 100.0)
