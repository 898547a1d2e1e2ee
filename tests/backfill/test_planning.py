"""What a backfill would do, decided without Spark: what needs work, in which chunks, and why."""

from __future__ import annotations

import shlex
import time

import pytest

from tests.backfill.conftest import day, january
from tests.support.history import History
from twice import Day, Hour, Merge, Overwrite, Pipeline, Table, Whole, days
from twice.backfills.planning import Planner
from twice.backfills.request import Request, around
from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.chunks.separability import Separability
from twice.errors import StoreRefused, UsageError
from twice.ledger import InputRecord
from twice.model.scopes import Scope

YES = Separability(True, "declared")


class Plans(History):
    """A pipeline of three steps, what they did in January, and a planner that asks nobody but the ledger."""

    def __init__(self, folder) -> None:
        super().__init__(f"sqlite:///{folder}/ledger.db", Pipeline("shop", grain=Day))
        self.raw = Table("lake.s.raw", partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")
        self.facts = Table("lake.s.facts", partition=Day("d"), key=["id"], write=Overwrite())
        self.sums = Table("lake.s.sums", partition=Day("d"), key=["id"], write=Overwrite())

        @self.pipeline.extract(writes=self.raw)
        def land(window):
            yield {"id": 1, "d": window.start.date()}

        @self.pipeline.step(reads={"raw": self.raw}, writes=self.facts)
        def facts(raw):
            return raw

        @self.pipeline.step(reads={"facts": self.facts.window(lookback=days(1))}, writes=self.sums)
        def sums(facts):
            return facts

    def plan(self, first=1, end=11, *, judge=lambda _stage: YES, estimate=lambda _stage: None, **how):
        request = Request("shop", january(first, end), **how)
        return Planner(self.ledger, self.pipeline, request, judge, estimate).plan()

    def planner(self, **how) -> Planner:
        return Planner(self.ledger, self.pipeline, Request("shop", january(1, 11), **how), lambda _stage: YES)

    def made(
        self, step: str, first: int, end: int, *, rows: int = 10, code: str = "", ok=True, dimensions=None
    ) -> None:
        """Record that a step has made some days."""
        found = self.pipeline.find(step)
        table, span, over = found.writes, january(first, end), Scope.of(january(first, end), dimensions)
        if not ok:
            run, attempt = self.attempt(step, over, code or fingerprint(found))
            self.ledger.attempts.finish(attempt, "failed", error="it rained")
            self.ledger.runs.finish(run, "failed", "it rained")
            return
        units = list((table.partition.grain if table.partition else Day).partitions(span, self.pipeline.zone))
        inputs = tuple(
            InputRecord(name, read.table.name, "window", "1", {u.start.isoformat(): "digest:10-1-1-ab" for u in units})
            for name, read in found.reads.items()
        )
        scopes = [Scope.of(unit, dimensions) for unit in units] if table.partition else [over]
        self.publish(step, *scopes, over=over, rows=rows, digest=f"{rows}-1-1-ab", code=code, inputs=inputs)


@pytest.fixture
def plans(tmp_path):
    return Plans(tmp_path)


def spans(step) -> list[str]:
    return [str(stage.scope) for stage in step.chunks]


def test_everything_is_missing_at_first_and_separable_steps_share_jobs(plans):
    land, facts, sums = plans.plan().steps
    assert (land.partitions, len(land.chunks), land.batching.ok) == (10, 10, False)
    assert "one partition per job" in land.batching.why
    assert facts.batching.ok
    assert "separable: declared" in facts.batching.why
    # Nothing is known of the rows: a first chunk is small, and all have about the same size
    assert spans(facts) == ["2026-01-01/2026-01-06", "2026-01-06/2026-01-11"]
    assert sums.counts == {"missing": 10}


def test_the_size_of_chunks_follows_the_rows_that_are_known(plans):
    plans.made("land", 1, 11, rows=600_000)
    assert [len(stage.target.partitions) for stage in plans.plan().steps[1].chunks] == [2, 3, 2, 3]
    assert [len(stage.target.partitions) for stage in plans.plan(chunk=4).steps[1].chunks] == [3, 3, 4]
    assert len(plans.plan(chunk=1).steps[1].chunks) == 10
    # A source that nobody here makes is weighed
    plans.pipeline.steps.pop("land")
    found = plans.plan(estimate=lambda stage: 2_000_000.0 * len(stage.target.partitions)).steps[0]
    assert len(found.chunks) == 10


def test_only_what_needs_work_is_made_and_gaps_are_not_bridged(plans):
    for step in ("land", "facts", "sums"):
        plans.made(step, 1, 11)
    assert plans.plan().nothing_to_do
    plans.made("facts", 3, 4, code="v2:old")
    plans.made("facts", 7, 9, ok=False)
    land, facts, sums = plans.plan().steps
    assert (land.needed, land.reused) == ((), 10)
    assert spans(facts) == ["2026-01-03/2026-01-04", "2026-01-07/2026-01-09"]
    assert facts.counts == {"done": 7, "stale": 1, "failed": 2}
    # Downstream reads a day back: what may have to be made again is said, and judged in its turn
    assert (sums.needed, sums.perhaps) == ((), 5)
    assert spans(plans.plan(only=("failed",)).steps[1]) == ["2026-01-07/2026-01-09"]
    # Without what is stale nothing more will come of it
    assert plans.plan(only=("failed",)).steps[2].perhaps == 0
    assert spans(plans.plan(only=("stale",)).steps[1]) == ["2026-01-03/2026-01-04"]
    assert [step.partitions for step in plans.plan(only=("all",)).steps] == [0, 10, 10]


def test_landed_raw_data_is_fetched_again_only_when_asked_for(plans):
    plans.made("land", 1, 6, code="v2:old")
    land = plans.plan().steps[0]
    assert (land.reused, land.partitions) == (5, 5)
    assert plans.plan(refetch=True).steps[0].partitions == 10
    assert plans.plan(refetch=True, only=("missing",)).steps[0].partitions == 5


def test_newest_first_turns_the_chunks_around(plans):
    facts = plans.plan(order="backward", steps=("facts",)).steps[0]
    assert spans(facts) == ["2026-01-06/2026-01-11", "2026-01-01/2026-01-06"]


def test_a_step_that_cannot_be_judged_yet_says_so(plans):
    def judge(stage):
        raise StoreRefused("lake.s.raw does not exist")

    facts = plans.plan(judge=judge).steps[1]
    assert facts.batching.why == "one partition per job: judged when its turn comes (lake.s.raw does not exist)"
    assert len(facts.chunks) == 10


def test_what_reads_a_partition_that_was_not_made_is_held_back(plans):
    plans.made("land", 1, 11)
    bad = {"facts": [january(4, 5)]}
    sums = plans.planner().turn(plans.pipeline.find("sums"), bad)
    assert [(unit.window, why) for unit, why in sums.blocked] == [
        (january(4, 5), "step facts did not build its input"),
        (january(5, 6), "step facts did not build its input"),
    ]
    assert sums.partitions == 8
    assert spans(sums)[0].startswith("2026-01-01")


def test_a_step_that_builds_on_its_past_goes_forward_one_by_one(plans):
    table = Table("lake.s.state", partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")

    @plans.pipeline.step(
        reads={"facts": plans.facts, "past": table.window(lookback=days(1))}, writes=table, depends_on_past=True
    )
    def state(facts, past):
        return facts

    plans.made("state", 1, 11)
    plans.made("state", 8, 9, ok=False)
    found = plans.plan(order="backward", steps=("state",)).steps[0]
    # All that is built on the 8th is looked at again, in order
    assert spans(found) == [str(january(number, number + 1)) for number in (8, 9, 10)]
    assert (found.batching.in_order, found.batching.skip_fresh) == (True, True)
    held = plans.planner().turn(plans.pipeline.find("state"), {"facts": [january(9, 10)]})
    assert [unit.window for unit, _ in held.blocked] == [january(9, 10), january(10, 11)]


def test_what_this_backfill_has_made_is_not_made_again_though_its_code_changed(plans):
    plans.made("land", 1, 11)
    plans.made("facts", 1, 6, code="v2:old")
    facts = plans.planner().turn(plans.pipeline.find("facts"), {}, [january(1, 4)])
    assert [unit.window for unit in facts.needed] == [january(number, number + 1) for number in range(4, 11)]


def test_what_is_to_come_is_counted_without_asking_how(plans):
    plans.made("land", 1, 11)
    plans.made("facts", 1, 6)
    planner = plans.planner()
    planner.judge = None
    assert planner.expected(planner.steps) == {"land": 0, "facts": 5, "sums": 10}


def test_a_merged_table_is_made_once_over_the_union_of_windows(plans):
    people = Table("lake.s.people", key=["id"], write=Merge(version="v"))

    @plans.pipeline.step(reads={"raw": plans.raw}, writes=people)
    def merge(raw):
        return raw

    found = plans.plan(steps=("merge",)).steps[0]
    assert spans(found) == ["2026-01-01/2026-01-11"]
    assert found.batching.why.startswith("merged once, over the union of windows; twice rebuild lake.s.people")
    # Windows that were merged before are not merged again
    plans.made("merge", 1, 5)
    plans.made("merge", 6, 11)
    assert spans(plans.plan(steps=("merge",)).steps[0]) == ["2026-01-05/2026-01-06"]
    plans.made("merge", 5, 6)
    assert plans.plan(steps=("merge",)).nothing_to_do
    plans.made("merge", 2, 3, ok=False)
    plans.made("merge", 9, 10, code="v2:old")
    assert spans(plans.plan(steps=("merge",)).steps[0]) == ["2026-01-02/2026-01-03", "2026-01-09/2026-01-10"]


def test_a_merge_is_stale_where_its_input_changed(plans):
    people = Table("lake.s.people", key=["id"], write=Merge(version="v"))

    @plans.pipeline.step(reads={"raw": plans.raw}, writes=people)
    def merge(raw):
        return raw

    plans.made("land", 1, 11)
    plans.made("merge", 1, 11)
    assert plans.plan(steps=("merge",)).nothing_to_do
    plans.made("land", 4, 5, rows=11)
    assert spans(plans.plan(steps=("merge",)).steps[0]) == ["2026-01-04/2026-01-05"]


def test_a_whole_table_is_made_for_the_newest_window_only(plans):
    newest = Table("lake.s.newest", key=["id"], write=Whole())

    @plans.pipeline.step(reads={"raw": plans.raw}, writes=newest)
    def replace(raw):
        return raw

    assert spans(plans.plan(steps=("replace",)).steps[0]) == ["2026-01-10/2026-01-11"]
    plans.made("replace", 10, 11)
    assert plans.plan(steps=("replace",)).nothing_to_do


def test_a_table_of_a_finer_grain_is_made_in_whole_units(tmp_path):
    plans = Plans(tmp_path)
    hours = Table("lake.s.hours", partition=Hour("h"), key=["id"], write=Overwrite())

    @plans.pipeline.step(reads={"raw": plans.raw}, writes=hours)
    def by_hour(raw):
        return raw

    found = plans.plan(1, 4, steps=("by_hour",), chunk=48).steps[0]
    assert (found.partitions, [len(stage.target.partitions) for stage in found.chunks]) == (72, [24, 48])


def test_a_tenant_is_judged_by_its_own_runs_and_by_those_of_all(plans):
    table = Table("lake.s.tenants", partition=Day("d"), key=["id"], write=Overwrite(), dimensions=["tenant"])

    @plans.pipeline.step(reads={"raw": plans.raw}, writes=table)
    def by_tenant(raw):
        return raw

    acme = {"tenant": "acme"}
    plans.made("by_tenant", 1, 4, dimensions=acme)
    assert plans.plan(steps=("by_tenant",), dimensions=acme).steps[0].counts == {"done": 3, "missing": 7}
    assert plans.plan(steps=("by_tenant",), dimensions={"tenant": "bolt"}).steps[0].counts == {"missing": 10}
    # One tenant's runs do not make a day for all of them
    assert plans.plan(steps=("by_tenant",)).steps[0].counts == {"missing": 10}
    plans.made("by_tenant", 3, 7)
    assert plans.plan(steps=("by_tenant",)).steps[0].counts == {"done": 4, "missing": 6}
    assert plans.plan(steps=("by_tenant",), dimensions={"tenant": "bolt"}).steps[0].counts == {"done": 4, "missing": 6}
    # One tenant that fails since makes the day a failed one
    plans.made("by_tenant", 5, 6, dimensions=acme, ok=False)
    assert plans.plan(steps=("by_tenant",)).steps[0].counts == {"done": 3, "failed": 1, "missing": 6}
    (stage, *_) = plans.plan(steps=("by_tenant",), dimensions=acme, only=("failed",)).steps[0].chunks
    assert str(stage.scope) == "2026-01-05/2026-01-06 tenant=acme"


def test_a_choice_of_steps_is_widened_along_the_graph(plans):
    assert around(plans.pipeline, ["facts"], downstream=True, upstream=False) == ("facts", "sums")
    assert around(plans.pipeline, ["facts"], downstream=False, upstream=True) == ("land", "facts")
    assert around(plans.pipeline, ["sums"], downstream=False, upstream=True) == ("land", "facts", "sums")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"parallel": 0}, "--parallel must be 1 or more"),
        ({"chunk": 0}, "--chunk must be auto, or 1 or more"),
        ({"only": ("fresh",)}, "choose from missing, failed, stale, all"),
        ({"tags": {"backfill": "x"}}, "is reserved for the backfill's id"),
        ({"steps": ("nothing",)}, "has no step 'nothing'"),
        ({"dimensions": {"tenant": "acme"}}, "has no dimension 'tenant'"),
    ],
)
def test_what_makes_no_sense_is_refused(plans, how, words):
    with pytest.raises(UsageError, match=words):
        plans.plan(**how)


def test_a_request_is_read_back_as_it_was_written():
    request = Request(
        "shop", january(1, 5), ("facts",), {"tenant": "a"}, ("all",), "backward", 3, 7, "slow", {"project": "x"}, True
    )
    assert Request.from_json(request.to_json()) == request


def test_the_command_that_goes_on_says_everything_that_matters(plans):
    request = Request("shop", january(1, 5), ("facts",), tags={"project": "x y"}, parallel=4, chunk=7)
    assert request.command(plans.pipeline, january(2, 3)) == (
        f"twice backfill start shop --from {day(2)} --to {day(3)} --step facts --tag 'project=x y' --parallel 4 "
        "--chunk 7"
    )


@pytest.mark.full
def test_ten_thousand_partitions_are_planned_quickly(tmp_path):
    plans = Plans(tmp_path)
    for step in ("land", "facts"):
        plans.made(step, 1, 10_001)
    started = time.process_time()
    plan = plans.plan(1, 10_001)
    assert time.process_time() - started < 5
    assert [step.partitions for step in plan.steps] == [0, 0, 10_000]


def test_the_command_that_goes_on_asks_for_the_same(plans):
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
    words = shlex.split(request.command(plans.pipeline, january(3, 4)))
    assert words[:4] == ["twice", "backfill", "start", "shop"]
    read = start.make_context("start", words[3:]).params
    assert (read["from_"], read["to"]) == (day(3), day(4))
    assert (read["steps"], read["only"], read["order"], read["refetch"]) == (("facts",), ("all",), "backward", True)
    assert (read["parallel"], read["chunk"], read["pool"], read["accept_late"]) == (3, "5", "slow", True)
    assert read["tags"] == ("project=re state",)
    assert not read["shadow"]
    # Nothing more than was asked for
    plain = Request("shop", january(1, 11)).command(plans.pipeline, january(3, 4))
    assert plain == f"twice backfill start shop --from {day(3)} --to {day(4)}"
    # What was missing and failed is no longer missing
    assert Request("shop", january(1, 11), only=("missing",)).again.only == ("missing", "failed")
    assert Request("shop", january(1, 11), only=("all",)).again.only == ("all",)


def test_what_was_interrupted_is_as_good_as_it_was_before(plans):
    for step in ("land", "facts"):
        plans.made(step, 1, 4)
    _, row = plans.attempt("facts", Scope(january(1, 5)), fingerprint(plans.pipeline.find("facts")))
    plans.ledger.attempts.finish(row, "interrupted")
    # Three days hold what they held; the fourth was never made
    assert plans.plan(1, 5).steps[1].counts == {"done": 3, "failed": 1}


def test_a_long_merge_is_weighed_by_its_days(plans):
    people = Table("lake.s.people", key=["id"], write=Merge(version="v"))

    @plans.pipeline.step(reads={"facts": plans.facts}, writes=people)
    def merge(facts):
        return facts

    # A merge of ten days for 100 executor seconds
    _, row = plans.attempt("merge", Scope(january(1, 11)))
    plans.ledger.attempts.finish(row, "published", details={"cost": {"executor_seconds": 100.0}})
    # Another ten days would cost about as much
    (merged,) = [step for step in plans.plan(11, 21).steps if step.step.name == "merge"]
    assert (merged.partitions, merged.seconds) == (10, 100.0)
