"""Backfills steered from elsewhere: paused, throttled, cancelled, killed, resumed and shared between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from itertools import pairwise

import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from tests.backfill.conftest import Shop, day, january
from tests.support.processes import until
from tests.support.project import FULL
from twice import Day, Overwrite, Pipeline, Table
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.errors import ScopeHeld, UsageError

pytestmark = [pytest.mark.spark, pytest.mark.crash]


class Thread(threading.Thread):
    """A backfill of this process, while the test does something else."""

    def __init__(self, work) -> None:
        super().__init__(daemon=True)
        self._work, self.summary, self.error = work, None, None
        self.start()

    def run(self) -> None:
        try:
            self.summary = self._work()
        except BaseException as error:
            self.error = error

    def end(self):
        self.join(120)
        assert self.error is None, repr(self.error)
        assert self.summary is not None, "it still runs"
        return self.summary


def twice(lab, *arguments: str) -> str:
    """Call the command line in a process of its own."""
    command = [sys.executable, "-m", "twice", "--config", str(lab.config.source), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def the_one(lab):
    """Wait for the only backfill."""
    until(lab.ledger.backfills.list)
    return lab.ledger.backfills.list()[0]


def runs_of(lab, backfill: str) -> list:
    return [run for run in lab.ledger.runs.list(limit=500) if run.tags.get("backfill") == backfill]


def interrupting(lab, chunks: int):
    """Return what interrupts a backfill after so many chunks: no other starts once the last of them has."""
    seen = []

    def heard(note) -> None:
        seen.append(note.kind)
        if note.kind == "chunk started" and seen.count("chunk started") == chunks:
            lab.ledger.backfills.pause(note.backfill)
        if note.kind == "done" and seen.count("done") == chunks:
            lab.ledger.backfills.finish(note.backfill, "interrupted")

    return heard


@pytest.mark.slow(reason="ten days, killed and resumed; in the full lane once more for comparison")
def test_s32_killed_at_60_percent_resume_does_the_rest_and_nothing_else(lab, start_child):
    loop, shop = Shop(lab, "loop_"), Shop(lab)
    loop.land(10)
    # In no order, several chunks at once, of two and three days
    child = start_child(lab, days=10, chunk=3, parallel=3, shuffled=True, stop_at=12)
    # 12 of 20 partitions are done when it is killed
    child.until_stopped()
    child.kill()
    info = the_one(lab)
    killed = lab.ledger.backfills.get(info.id)
    assert killed.status == "lost"
    done = {(c.step, str(c.scope)) for c in lab.ledger.backfills.chunks.list(info.id, states=("done",))}
    before = {run.id for run in runs_of(lab, info.id)}
    # When it is resumed
    summary = shop.project().go_on(killed)
    # Then the rest is made and nothing else
    assert (summary.status, [tally.done for tally in summary.tallies]) == ("done", [10, 10])
    made = [run for run in runs_of(lab, info.id) if run.id not in before]
    assert {(a.step, str(run.scope)) for run in made for a in run.attempts} & done == set()
    chunks = lab.ledger.backfills.chunks.list(info.id)
    assert len(made) == len(chunks) - len(done) > 0
    assert {chunk.partitions for chunk in chunks} == {2, 3}
    assert lab.rows("facts") == lab.rows("raw")
    summed = lab.read("raw").groupBy("d", "customer").agg(F.sum("n").alias("n")).collect()
    assert {tuple(row.values()) for row in lab.rows("sums")} == {tuple(row) for row in summed}
    assert len(lab.rows("sums")) == len(summed)
    if FULL:
        loop.loop(1, 11)
        assert shop.digests() == loop.digests()
    assert lab.ledger.leases.list() == []
    assert lab.refs("facts") == ["main"]


@pytest.mark.full
def test_ctrl_c_lets_the_chunks_at_work_end_and_says_how_to_resume(lab, start_child):
    shop = Shop(lab)
    shop.land(6)
    child = start_child(lab, days=6, chunk=1, parallel=1, stop_at=1)
    child.until_stopped()
    os.kill(child.pid, signal.SIGINT)
    os.kill(child.pid, signal.SIGCONT)
    said = child.end()
    info = the_one(lab)
    assert (said["exit"], said["status"]) == (130, "interrupted")
    assert said["next_step"] == f"twice backfill resume {info.id}"
    left = lab.ledger.backfills.get(info.id)
    assert (left.status, left.count("running"), left.count("failed")) == ("interrupted", 0, 0)
    assert 0 < left.count("done") < 12
    assert lab.ledger.leases.list() == []
    summary = shop.project().go_on(left)
    assert (summary.status, [tally.done for tally in summary.tallies]) == ("done", [6, 6])
    # All that is to come counted from the start
    assert {note.progress.total for note in shop.notes if note.progress} == {12}


@pytest.mark.full
def test_two_processes_share_one_backfill(lab, start_child):
    shop = Shop(lab)
    shop.land(8)
    # However slow this process is to begin, there is something left for it
    child = start_child(lab, days=8, chunk=1, parallel=2, pause_at=1)
    info = the_one(lab)
    until(lambda: lab.ledger.backfills.get(info.id).status == "paused")
    with pytest.raises(ScopeHeld, match=f"overlaps with backfill {info.id}"):
        shop.backfill(5, 7)
    lab.ledger.backfills.set_parallel(info.id, 4)
    summary = shop.project().go_on(lab.ledger.backfills.get(info.id))
    assert child.end()["exit"] == 0
    assert (summary.status, [tally.done for tally in summary.tallies]) == ("done", [8, 8])
    assert len({chunk.owner for chunk in lab.ledger.backfills.chunks.list(info.id)}) == 2


@pytest.mark.full
def test_s29_throttled_paused_and_sped_up_from_another_process_while_production_goes_on(lab):
    shop = Shop(lab)
    shop.land(12)
    turns = threading.Semaphore(2)
    shop.pipeline = shop.build(turn=turns.acquire)
    work = Thread(lambda: shop.backfill(1, 11, steps=("facts",), chunk=1, parallel=1, pool="slow"))
    info = the_one(lab)
    # Two days are made, the third waits for its turn
    until(lambda: len(shop.told("chunk started")) == 3)
    # Paused by a command elsewhere: what runs ends, nothing new starts
    assert "is paused" in twice(lab, "backfill", "pause", info.id[:10])
    turns.release(20)
    until(lambda: lab.ledger.backfills.get(info.id).count("running") == 0)
    time.sleep(2)
    assert len(shop.told("chunk started")) == 3
    # Production runs another day meanwhile, in no pool or another
    assert lab.run(shop.pipeline, day(12), steps=["facts"]).status == "done"
    while turns.acquire(blocking=False):
        pass
    # Sped up and let go
    twice(lab, "backfill", "set", info.id, "--parallel", "3")
    assert "continues on" in twice(lab, "backfill", "resume", info.id)
    until(lambda: lab.ledger.backfills.get(info.id).count("running") == 3)
    turns.release(20)
    assert work.end().status == "done"
    # One at a time until then
    ended = lab.ledger.backfills.chunks.list(info.id)[:3]
    assert all(a.finished_at <= b.started_at for a, b in pairwise(ended))
    assert "10 of 10" in twice(lab, "backfill", "list")


@pytest.mark.full
def test_s29_production_does_not_wait_for_a_backfill_in_a_pool_of_the_same_spark(lab):
    shop = Shop(lab)
    shop.land(2, rows=200)

    def sleepy(raw):
        def wait(n):
            time.sleep(0.5)
            return n

        return raw.repartition(200).withColumn("n", F.udf(wait, "bigint")("n"))

    slow = Pipeline("slow", grain=Day)
    spread = Table(lab.name("spread"), partition=Day("d"), key=["id"], write=Overwrite())
    slow.step(reads={"raw": shop.raw}, writes=spread, name="spread")(sleepy)
    production = Shop(lab, "daily_")
    project = Project(shop.runtime, slow)
    work = Thread(lambda: project.start(Request("slow", january(1, 2), chunk=1, parallel=1, pool="slow")))
    tracker = lab.spark.sparkContext.statusTracker()

    def busy():
        found = (tracker.getStageInfo(number) for number in tracker.getActiveStageIds())
        return [stage for stage in found if stage and stage.numTasks >= 20 and stage.numCompletedTasks]

    until(busy)
    # The backfill fills both cores, with many tasks waiting: a run beside it gets its share at once
    assert lab.run(production.pipeline, day(2), steps=["facts"]).status == "done"
    assert [stage for stage in busy() if stage.numCompletedTasks < stage.numTasks]
    lab.ledger.backfills.cancel(the_one(lab).id)
    assert work.end().status == "cancelled"


def test_s29_a_source_is_called_no_more_often_than_declared_and_landed_data_is_reused(lab):
    calls: list[float] = []
    shop = Pipeline("shop", grain=Day)
    raw = Table(lab.name("landed"), partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")

    @shop.extract(writes=raw, rate="4/s", parallel=2)
    def fetch(window, pace):
        for page in range(2):
            pace()
            calls.append(time.monotonic())
            yield {"id": page, "d": window.start.date()}

    project = Project(lab.runtime, shop)
    assert project.start(Request("shop", january(1, 6), parallel=3)).status == "done"
    assert len(calls) == 10
    # Never more than four calls in any second, whichever chunk made them
    calls.sort()
    assert all(later - earlier > 0.95 for earlier, later in zip(calls, calls[4:], strict=False))
    # Landed days are not fetched again, unless asked for
    assert project.start(Request("shop", january(1, 7), only=("all",))).tallies[0].done == 1
    assert len(calls) == 12
    assert project.start(Request("shop", january(1, 2), only=("all",), refetch=True)).tallies[0].done == 1
    assert len(calls) == 14


def test_a_cancel_ends_the_running_spark_jobs_and_leaves_nothing_behind(lab):
    shop = Shop(lab)
    shop.land(4)

    def sleepy(raw):
        def wait(n):
            time.sleep(60)
            return n

        return raw.withColumn("n", F.udf(wait, "bigint")("n"))

    slow = Pipeline("shop", grain=Day)
    slow.step(reads={"raw": shop.raw}, writes=shop.facts, name="facts")(sleepy)
    work = Thread(lambda: shop.backfill(1, 5, slow, chunk=1, parallel=2))
    info = the_one(lab)
    tracker = lab.spark.sparkContext.statusTracker()
    until(lambda: len(tracker.getActiveStageIds()) >= 1)
    started = time.monotonic()
    twice(lab, "backfill", "cancel", info.id)
    cancelled = lab.ledger.backfills.get(info.id).finished_at
    until(lambda: not tracker.getActiveStageIds(), patience=10)
    summary = work.end()
    assert time.monotonic() - started < 30
    # Within two seconds nothing starts any more
    began = [chunk.started_at for chunk in lab.ledger.backfills.chunks.list(info.id) if chunk.started_at]
    assert max(began) < cancelled + timedelta(seconds=2)
    assert (summary.status, summary.exit_code) == ("cancelled", 3)
    assert summary.tallies[0].cancelled == 4
    assert list(tracker.getActiveStageIds()) == []
    # Nothing failed: it was stopped
    found = runs_of(lab, info.id)
    assert {run.status for run in found} | {each.status for run in found for each in run.attempts} == {"interrupted"}
    assert lab.ledger.leases.list() == []
    assert len(shop.told("chunk started")) == 2
    with pytest.raises(UsageError, match="has ended: it is cancelled"):
        shop.project(slow).go_on(lab.ledger.backfills.get(info.id))


def test_resume_with_other_code_is_refused_until_one_says_what_is_meant(lab):
    shop = Shop(lab)
    shop.land(4)
    project = Project(shop.runtime, shop.pipeline, interrupting(lab, 2))
    first = project.start(shop.request(1, 5, steps=("facts",), chunk=1, parallel=1))
    assert (first.status, first.exit_code, first.tallies[0].done) == ("interrupted", 130, 2)
    assert first.next_step == f"twice backfill resume {first.backfill}"
    info = lab.ledger.backfills.get(first.backfill)
    fixed = shop.build(fixed=[1, 4])
    with pytest.raises(UsageError, match="the code of facts changed") as refused:
        shop.project(fixed).go_on(info)
    assert "--new-code" in refused.value.next_step
    assert "--restart" in refused.value.next_step
    done = shop.project(fixed).go_on(info, restart=True)
    # All four are made by the new code: two anew, and the others for the first time
    assert (done.status, done.tallies[0].done) == ("done", 4)
    assert sorted(row["n"] for row in lab.rows("facts", f"d = date'{day(1)}'")) == [0, 14, 28, 42]


@pytest.mark.full
def test_new_code_is_proven_anew_and_makes_what_is_left(lab):
    shop = Shop(lab)
    shop.land(6)
    project = Project(shop.runtime, shop.pipeline, interrupting(lab, 1))
    first = project.start(shop.request(1, 7, steps=("facts",), chunk=2, parallel=1))
    assert (first.status, first.tallies[0].done) == ("interrupted", 2)
    # When the step is no longer separable
    mixed = Pipeline("shop", grain=Day)

    @mixed.step(reads={"raw": shop.raw}, writes=shop.facts)
    def facts(raw):
        return raw.withColumn("n", F.sum("n").over(Over.orderBy("id")))

    done = shop.project(mixed).go_on(lab.ledger.backfills.get(first.backfill), new_code=True)
    # Then what is left is made one by one, and what is done stays
    assert (done.status, done.tallies[0].done) == ("done", 6)
    assert [note.span for note in shop.told("chunk started")] == [day(number) for number in range(3, 7)]
    assert "has a window function over all rows without d" in shop.told("laid out")[0].text
    assert min(row["n"] for row in lab.rows("facts", f"d = date'{day(6)}'")) == 20 * 7
    assert sorted(row["n"] for row in lab.rows("facts", f"d = date'{day(2)}'")) == [28, 35, 42, 49]


@pytest.mark.full
def test_s31_every_run_of_a_backfill_carries_its_tags_and_its_cost(lab):
    shop = Shop(lab)
    shop.land(3)
    summary = shop.backfill(1, 4, tags={"project": "restate"})
    found = runs_of(lab, summary.backfill)
    assert len(found) == 2
    assert {run.tags["project"] for run in found} == {"restate"}
    (line,) = lab.ledger.runs.costs("project")
    assert (line.name, line.attempts) == ("restate", 2)
    assert line.total["executor_seconds"] > 0
    # The next plan knows what it would cost
    plan = shop.project().planner(shop.request(1, 4, only=("all",))).plan()
    assert all(step.seconds > 0 for step in plan.steps)


def test_the_dry_run_shows_what_a_run_executes(lab):
    shop = Shop(lab)
    shop.land(6)
    jobs = shop.lab.jobs()
    plan = shop.project().planner(shop.request(1, 7)).plan()
    assert shop.lab.jobs() == jobs
    facts, sums = plan.steps
    assert (facts.batching.ok, facts.batching.why) == (True, "separable: proven from its plan")
    assert "judged when its turn comes" in sums.batching.why or "not known yet" in sums.batching.why
    summary = shop.backfill(1, 7, steps=("facts",))
    ran = [str(chunk.scope) for chunk in lab.ledger.backfills.chunks.list(summary.backfill)]
    assert ran == [str(stage.scope) for stage in facts.chunks]


@pytest.mark.full
def test_a_merged_table_is_made_in_one_go_and_equals_the_loop(lab):
    from twice import Merge

    def build(prefix: str) -> Pipeline:
        shop = Pipeline(f"{prefix}shop", grain=Day)
        people = Table(lab.name(f"{prefix}people"), key=["customer"], write=Merge(version="v"))

        @shop.step(reads={"raw": Table(lab.name("raw"), partition=Day("d"))}, writes=people)
        def merge(raw):
            return raw.groupBy("customer").agg(F.max("id").alias("v"), F.max("d").alias("last"))

        return shop

    Shop(lab).land(6)
    loop, once = build("loop_"), build("once_")
    for number in range(1, 7):
        lab.run(loop, day(number))
    summary = Project(lab.runtime, once).start(Request("shop", january(1, 7)))
    assert (summary.status, len(lab.ledger.backfills.chunks.list(summary.backfill))) == ("done", 1)
    rows = [
        [{k: v for k, v in row.items() if not k.startswith("_twice")} for row in lab.rows(f"{prefix}people")]
        for prefix in ("loop_", "once_")
    ]
    assert rows[0] == rows[1]
    assert Project(lab.runtime, once).start(Request("shop", january(1, 7))).status == "nothing to do"
