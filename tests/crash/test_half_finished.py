"""S01: a run that dies in the middle of its day, with the rows it had; and a run that is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.crash import jobs
from tests.crash.world import DAY, END
from twice.engine.attempt import compute

pytestmark = [pytest.mark.spark, pytest.mark.crash]

ROOT = Path(__file__).parents[2]
REVENUE = sum((Decimal(number % 1000) / 4 for number in range(jobs.DAY_ROWS)), Decimal(0))


@pytest.fixture
def small_batches(monkeypatch):
    """An extract is staged batch by batch; a tenth of S01's day has a tenth of its batches."""
    monkeypatch.setattr(compute, "BATCH", jobs.BATCH)


def staged_rows(world):
    branches = world.place.leftovers("t")
    assert len(branches) == 1
    return world.spark.table(f"{world.name()}.branch_{branches[0]}").where(f"d = date'{DAY}'").count()


def test_s01_dies_after_18000_of_25000_rows_then_is_retried(world, small_batches):
    # Given a table that has a day already, and a first attempt that dies on the way through the next one
    world = world("extract", seed=False)
    world.run("2026-04-24", DAY)
    with world.reader() as reader:
        died = world.child(hold="die").end()
        assert died["exit"] == -signal.SIGKILL
        # (with part of its rows written, where no reader looks),
        assert staged_rows(world) == jobs.DEATH // jobs.BATCH * jobs.BATCH
        # when it is started again,
        result = world.run()
    # then the day has all its orders once, the revenue is right, and nobody ever saw a part of it.
    assert [(step.status, step.rows) for step in result.steps] == [("published", jobs.DAY_ROWS)]
    assert world.look() == (jobs.DAY_ROWS, REVENUE)
    assert reader.story == [(0, Decimal(0)), (jobs.DAY_ROWS, REVENUE)]
    assert world.look("2026-04-24") == (jobs.DAY_ROWS, REVENUE)
    assert world.tidy()


def test_s01_the_driver_dies_while_its_spark_goes_on_writing(lasting, tmp_path):
    # Given a driver that is killed while its Spark job writes, and a Spark that outlives it for a while,
    world = lasting("overwrite")
    world.land_next()
    old, new = world.look(), world.delivered()
    go = tmp_path / "go"
    child = world.child(kind="slow", hold=str(go))
    jobs.wait_for(f"{go}.reached")
    child.send(signal.SIGKILL)
    assert child.end()["exit"] == -signal.SIGKILL
    with world.reader() as reader:
        # when the run is started again at once, and the dead one's job finishes after it,
        result = world.run()
        versions = world.versions()
        go.touch()
        until_idle(world.spark)
    # then what it wrote late reaches no reader,
    assert [step.status for step in result.steps] == ["published"]
    assert world.versions() == versions
    assert reader.story == [old, new]
    # and the next run leaves nothing of it behind.
    world.run()
    assert world.tidy()


def until_idle(spark):
    tracker = spark.sparkContext.statusTracker()
    until = time.monotonic() + 60
    while tracker.getActiveJobsIds():
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)  # the commit follows its last job


@pytest.mark.full
def test_s01_the_whole_process_group_dies_with_its_own_spark(lasting, tmp_path):
    # Given a run with a Spark of its own, of which everything is killed in the middle of a write,
    world = lasting("overwrite")
    world.land_next()
    old, new = world.look(), world.delivered()
    go, told = tmp_path / "go", tmp_path / "told.jsonl"
    order = world.order(kind="slow", hold=str(go))
    file = replace(order, told=str(told)).to_file(tmp_path / "order.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.driver", str(file)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with world.reader() as reader:
        try:
            jobs.wait_for(f"{go}.reached")
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the group that was started above, and nothing else
            process.wait(10)
        assert [lease.owner.pid for lease in world.ledger.leases.list()] == [process.pid]
        # when it is started again, it takes over at once from the process that is gone.
        result = world.run()
    assert [step.status for step in result.steps] == ["published"]
    assert reader.story == [old, new]
    assert world.recorded() == world.clean(world.number)[1]
    assert world.tidy()


def test_s08_ctrl_c_while_staging_leaves_nothing_and_says_what_to_do_next(lasting, tmp_path):
    # Given a run in the middle of its write,
    world = lasting("overwrite")
    world.land_next()
    old, versions = world.look(), world.versions()
    go = tmp_path / "go"
    child = world.child(DAY, END, kind="slow", hold=str(go))
    jobs.wait_for(f"{go}.reached")
    # when somebody presses Ctrl-C,
    child.send(signal.SIGINT)
    end = child.end()
    go.touch()
    # then it ends with 130, has given its claim back, and says what to do.
    assert (end["exit"], end["error"], end["status"]) == (130, "Interrupted", "interrupted"), end
    assert "next:" in end["result"]["error"]
    assert world.tidy()
    assert world.versions() == versions
    assert world.look() == old
    assert world.run().steps[0].status == "published"


def test_a_run_from_a_thread_that_spark_has_not_seen(lasting):
    world = lasting("overwrite")
    world.land_next()
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(world.run).result().steps[0].status == "published"
    assert world.look() == world.delivered()
