"""S24: an executor dies in the middle of a stage; Spark computes it again, and the day is right."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash import jobs

pytestmark = [pytest.mark.spark, pytest.mark.crash]

ROOT = Path(__file__).parents[2]
MASTER = "local-cluster[2,1,1024]"


def descendants(pid):
    """List the processes below one, as /proc tells it."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            below = int(stat.parent.name)
            found += [below, *descendants(below)]
    return found


def executors(pid):
    """The executors that belong to one driver process, and to no other."""
    found = []
    for below in descendants(pid):
        try:
            command = Path(f"/proc/{below}/cmdline").read_text()
        except OSError:
            continue
        if "CoarseGrainedExecutorBackend" in command:
            found.append(below)
    return found


@pytest.mark.full
@pytest.mark.slow(reason="starts a cluster of two executors")
def test_s24_a_lost_executor_is_a_transient_error(world, tmp_path):
    import pyspark

    # Given a run on a cluster of two executors, in the middle of a stage,
    world = world()
    world.land_next()
    old, new = world.look(), world.delivered()
    config = Path(world.config.source)
    cluster = config.with_name(f"cluster-{config.name}")
    local = re.sub(r"local\[\d\]", MASTER, config.read_text())
    cluster.write_text(local + '"spark.executor.memory" = "1g"\n"spark.cores.max" = "2"\n')
    go, told = tmp_path / "go", tmp_path / "told.jsonl"
    order = world.order(kind="slow", hold=str(go))
    order = replace(order, told=str(told), config=str(cluster))
    # A home of its own, linked to the installed one: a cluster writes its work folders there.
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
    environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.driver", str(order.to_file(tmp_path / "order.json"))],
        cwd=ROOT,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        jobs.wait_for(f"{go}.reached")
        # when one of them is killed,
        before = executors(process.pid)
        assert len(before) == 2
        victim = executor_at_work(before)
        os.kill(victim, signal.SIGKILL)
        time.sleep(1)
        go.touch()
        code = process.wait(120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    # then the run ends well, and the day is right.
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert code == 0, (lines, (tmp_path / "log").read_text()[-3000:])
    assert lines[-1]["result"]["steps"][0]["status"] == "published"
    assert old != new
    assert world.look() == new
    assert world.recorded() == world.clean(world.number)[1]
    assert world.tidy()


def executor_at_work(pids):
    """The one below which Python workers run: it is in the middle of a task."""
    for pid in pids:
        if descendants(pid):
            return pid
    return pids[0]
