"""The command line on a real Spark: a project from `init`, run for real, and what the other commands say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from tests.support.project import FULL
from twice import Day, Overwrite, Pipeline, Table
from twice.cli.leases import fence, released
from twice.cli.run import Request, execute_all
from twice.cli.settings import Settings
from twice.engine.plan import plan
from twice.engine.status import collect
from twice.engine.status.table_state import TableState
from twice.model.targets import Target

pytestmark = pytest.mark.spark


def numbers(lab) -> Pipeline:
    pipeline = Pipeline("numbers", grain=Day)
    table = Table(lab.name("numbers"), partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")

    @pipeline.extract(writes=table)
    def count(window):
        if window.start.day == 27:
            raise ValueError("no numbers on the 27th")
        yield {"id": window.start.day, "d": window.start.date()}

    return pipeline


def request_of(pipeline, *days: str) -> Request:
    plans = [plan(pipeline, pipeline.grain.unit(day, pipeline.zone)) for day in days]
    return Request(Settings(arguments=["run", "numbers"]), "numbers", pipeline, plans, (), {}, {}, False, 0.0)


def test_a_loop_runs_until_it_fails_and_status_sees_what_was_changed_by_hand(lab, capsys):
    pipeline = numbers(lab)
    request = request_of(pipeline, "2026-04-25", "2026-04-26", "2026-04-27", "2026-04-28")
    code = execute_all(request, as_json=True, runtime=lab.runtime)
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert code == document["exit_code"] == 3
    assert [run["status"] for run in document["runs"]] == ["done", "done", "failed"]
    assert document["next_step"] == "twice run numbers --from 2026-04-27 --to 2026-04-29"
    assert said.err.rstrip().endswith(document["next_step"])
    assert "no numbers on the 27th" in said.err

    (step,) = collect(lab.ledger, [pipeline]).steps
    assert [partition.state for partition in step.partitions] == ["done", "done", "failed"]
    lab.insert("numbers", "values (99, date'2026-04-26')")
    (step,) = collect(lab.ledger, [pipeline], live=TableState(lab.runtime)).steps
    assert [partition.state for partition in step.partitions] == ["done", "stale", "failed"]
    assert "another writer changed it" in step.partitions[1].reasons[0].text


def test_a_released_holder_is_fenced_at_once(lab):
    pipeline = numbers(lab)
    assert execute_all(request_of(pipeline, "2026-04-25"), as_json=False, runtime=lab.runtime) == 0
    (stage,) = plan(pipeline, pipeline.grain.unit("2026-04-26", pipeline.zone))
    table, store = stage.step.writes, lab.runtime.stores.of(stage.step.writes)
    claim = lab.ledger.leases.claim(
        table.name, [stage.target.scope], ttl=timedelta(minutes=5), floor=store.token(lab.spark, table)
    )
    store.open(lab.spark, Target.of(table, stage.scope, pipeline.zone), claim.token)
    assert len(lab.refs("numbers")) == 2

    abandoned = lab.ledger.leases.take_over(table.name, claim.token)
    landed = fence(lab.runtime, abandoned)

    assert landed is None
    assert lab.refs("numbers") == ["main"]
    assert lab.ledger.leases.list() == []
    assert not lab.ledger.leases.holds(claim)
    assert "it had published nothing" in released(abandoned, landed)


@pytest.mark.slow(reason="starts Spark as a user does; the full lane again for a rerun")
def test_a_new_project_runs_for_real(tmp_path):
    def twice(*arguments):
        command = [sys.executable, "-m", "twice", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TWICE_")}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)

    assert twice("init").returncode == 0
    done = twice("--log-format", "json", "run", "sales", "--from", "2026-04-25", "--to", "2026-04-27", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [[step["status"] for step in run["steps"]] for run in document["runs"]] == [["published"] * 2] * 2
    # Java and Spark print nothing between the lines of twice.
    states = [json.loads(text)["state"] for text in done.stderr.splitlines()]
    assert states.count("published") == 4
    assert states[-1] == "finished"

    if FULL:
        again = twice("run", "sales", "--for", "2026-04-25")
        assert again.returncode == 0, again.stderr
        assert "orders unchanged (4 rows), revenue unchanged (3 rows)" in again.stdout

    status = twice("status").stdout.splitlines()
    assert status[0] == "sales: 4 done"
    assert "    2026-04-25 … 2026-04-26 (2)  done" in status
    run = document["runs"][0]["run"]
    if FULL:
        rebuilt = twice("replay", run, "--step", "revenue", "--verify")
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert "revenue: same: rebuilt: the same 3 rows" in rebuilt.stdout
        assert "sales.revenue  2026-04-25/2026-04-26  computing" in rebuilt.stderr
        assert twice("replay", run, "--verify").returncode == 1  # its orders are fetched from outside
    shown = twice("show", run).stdout
    assert "command   twice --log-format json run sales --from 2026-04-25 --to 2026-04-27 --json" in shown
    assert twice("leases").stdout == "nothing is held\n"
