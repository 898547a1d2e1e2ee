"""`twice replay`: what it says, and how it ends; the rebuilding itself is in tests/replay."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from pyspark.sql import functions as F

from tests.cli.story import ONE
from twice import Day, Overwrite, Pipeline, Table
from twice.cli.replay import print_report
from twice.ledger import open_ledger
from twice.ledger.db.schema import outputs
from twice.replay.recorded import plan_replay
from twice.replay.running import replay

SQL = """
from twice import Day, Overwrite, Pipeline, Table

shop = Pipeline("shop", grain=Day)
raw = Table("lake.raw.orders", partition=Day("d"))
facts = Table("lake.core.facts", partition=Day("d"), key=["id"], write=Overwrite())
shop.sql("facts", reads={"raw": raw}, writes=facts, query="select * from raw")
"""


def test_an_unknown_run_is_a_wrong_word(project):
    done = project.call("replay", "nope")
    assert (done.code, done.out) == (2, "")
    assert "no run begins with 'nope': nothing has run yet" in done.err
    project.code(SQL)
    story = project.story()
    run = story.publish("facts", story.scope(1))
    assert "no run begins with 'nope'" in project.call("replay", "nope").err
    done = project.call("replay", run, "--step", "fact")
    assert done.code == 2
    assert f"run {run} has no step 'fact'; its steps are: facts. Did you mean facts?" in done.err


def test_what_cannot_be_rebuilt_is_said_without_spark(project):
    project.code(SQL)
    story = project.story()
    run = story.publish("facts", story.scope(1), code="0ld")
    before = [each.to_json() for each in story.ledger.runs.list()]
    said = project.call("replay", run[:8])
    assert said.code == 0
    assert said.out.splitlines() == [
        f"run {run} of shop 2026-04-01/2026-04-02",
        "step   table            scope                  replay  recorded  rebuilt",
        "facts  lake.core.facts  2026-04-01/2026-04-02  cannot  1",
        "facts: cannot: the code has changed since",
        "    next: check out the code of 2026-05-01 00:00Z; the run recorded no commit",
    ]
    assert project.call("replay", run, "--verify").code == 1
    document = project.call("replay", run, "--json").json
    assert (document["run"], document["same"], document["steps"][0]["status"]) == (run, False, "cannot")
    assert [each.to_json() for each in story.ledger.runs.list()] == before
    assert ONE.date().isoformat() in str(document["scope"])


def why(project, run: str, *more: str) -> str:
    (step,) = project.call("replay", run, *more, "--json").json["steps"]
    assert step["status"] == "cannot"
    return step["why"]


def test_a_run_that_is_at_work_or_was_pruned_has_nothing_to_compare_with(project):
    project.code(SQL)
    story = project.story()
    pruned = story.publish("facts", story.scope(1))
    live = open_ledger(f"sqlite:///{project.ledger}")  # by the clock of now: a run of May would have fallen silent
    running, empty = (live.runs.start("shop", story.scope(day)) for day in (2, 4))
    live.attempts.start(running, "facts", "lake.core.facts", 1, story.scope(2), code="c")
    undone = story.publish("facts", story.scope(3), code="undo:06ksm4")
    with story.ledger.database.write() as connection:
        connection.execute(sa.delete(outputs).where(outputs.c.run == pruned))
    assert why(project, pruned) == ("what it published was pruned from the ledger, so there is nothing to compare with")
    assert why(project, running) == "the run is still at work on it"
    assert why(project, undone) == "the run put back what run 06ksm4 had replaced"
    assert project.call("replay", empty).out.splitlines()[-1] == "it has no steps to rebuild"
    assert why(project, empty, "--step", "facts") == "the run is still running and has not reached it"


@pytest.mark.spark
def test_what_differs_is_shown_below_the_table(lab, capsys):
    raw = lab.source("raw", "id bigint, d date, n int", "values (1, date'2026-04-25', 1), (2, date'2026-04-25', 2)")
    pipeline, times = Pipeline("copy", grain=Day), SimpleNamespace(now=1)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("t"), partition=Day("d"), key=["id"], write=Overwrite()))
    def copied(raw):
        return raw.withColumn("n", F.col("n") * times.now)

    run = lab.run(pipeline, "2026-04-25").run
    times.now = 7
    print_report(replay(lab.runtime, plan_replay(lab.ledger, [pipeline], run), rows=1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["copied", lab.name("t"), "2026-04-25/2026-04-26", "differs", "2", "2"]
    assert lines[3:] == [
        "copied: differs: 2026-04-25: the rebuilt rows are not those that the run published",
        "    2026-04-25: 0 added, 0 removed, 2 changed",
        "      sum of n: 3 published, 21 rebuilt",
        "    - published, + rebuilt:",
        "    - id=1, d=2026-04-25, n=1",
        "    + id=1, d=2026-04-25, n=7",
    ]
