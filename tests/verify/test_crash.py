"""`crash`: processes are really killed, and a step that remembers something outside of its tables is found."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.support.verified import FILES, HEALTHY, REMOVING, Verified
from twice.failpoints import FAIL_POINTS
from twice.verify.checks.crash import Crash
from twice.verify.running import make

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# Each call of the step counts, also one whose process died.
COUNTING = """
@pipeline.step(reads={"raw": raw}, writes=out)
def counted(raw):
    counter = Path(__file__).with_suffix(".count")
    calls = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(calls))
    return raw.select("id", "d", F.lit(calls).alias("v"))
"""
TWO_STEPS = (
    HEALTHY
    + """
total = Table(out.name + "_total", partition=Day("d"), key=("d",), write=Overwrite())


@pipeline.step(reads={"out": out}, writes=total)
def summed(out):
    return out.groupBy("d").agg(F.sum("v").alias("v"))
"""
)
STORES = """
[stores.database]
type = "sql"
url = "sqlite:///database.db"
[stores.files]
type = "parquet"
path = "parquet"
"""
ELSEWHERE = """
elsewhere = Table("%s", partition=Day("d"), key=("id",), write=Overwrite())


@pipeline.step(reads={"raw": raw}, writes=elsewhere)
def doubled(raw):
    return raw.select("id", "d", (F.col("v") * 2).alias("v"))
"""
SENDING = (
    HEALTHY
    + """
from twice.effects import Webhook


@pipeline.effect(after=out, to=Webhook("http://127.0.0.1:9/hook", marker="ref {key}"), on_unknown="ask")
def report(rows):
    return f"{rows.count()} rows"
"""
)
ICEBERG = ["claim.leased", "claim.fenced", "stage.written", "gate.passed", "publish.ready", "publish.committed",
           "record.written", "recover.dropped"]  # fmt: skip


@pytest.fixture
def verified(lab, monkeypatch):
    return Verified(lab, monkeypatch)


def deaths(summary: str) -> list[str]:
    """The points from which the summary says that a run recovered."""
    return summary.partition("recovered from: ")[2].partition(";")[0].split(", ")


@pytest.mark.full
def test_a_healthy_step_is_what_a_clean_run_makes_after_a_death_before_and_after_its_commit(verified):
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Crash(points=["gate.passed", "publish.committed"]), trial)
        stopped = trial.sandbox.spark.sparkContext._jsc.sc().isStopped()

    assert outcome.status == "passed", outcome
    # It says what was covered: how many died, where, and what the next run made of what they left.
    assert outcome.summary.startswith("killed 2 times in 1 step, and run again")
    assert deaths(outcome.summary) == ["gate.passed", "publish.committed"]
    assert "what a dead run had left: 1 adopted, 1 dropped" in outcome.summary
    assert "not covered" not in outcome.summary
    # The dead took nothing of Spark with them.
    assert not stopped
    assert verified.lab.spark.range(3).count() == 3


@pytest.mark.full
@pytest.mark.slow("two steps are killed at every point of a publish")
def test_every_step_is_killed_at_every_point_that_it_reaches(verified):
    with verified.trial(verified.write(TWO_STEPS)) as trial:
        outcome = make(Crash(), trial)

    assert outcome.status == "passed", outcome
    # A recovery is killed after another death.
    assert outcome.summary.startswith(f"killed {2 * (len(ICEBERG) + 1)} times in 2 steps")
    assert deaths(outcome.summary) == ICEBERG
    assert set(ICEBERG) <= set(FAIL_POINTS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("table", "point"),
    [
        ("database.main.out", "sql.deleted"),
        ("files.small.out", "parquet.moved_in"),
        ("warehouse.small.out", "delta.ready"),
    ],
)
def test_a_stores_own_points_are_found_and_covered(verified, table, point):
    verified.lab.declare(STORES)
    with verified.trial(verified.write(ELSEWHERE % table)) as trial:
        outcome = make(Crash(points=[point]), trial)

    assert outcome.status == "passed", outcome
    assert deaths(outcome.summary) == [point]


@pytest.mark.full
def test_effects_are_killed_too_and_are_sent_to_nobody(verified):
    points = ["effect.claimed", "effect.answered", "effect.recorded"]
    with verified.trial(verified.write(SENDING)) as trial:
        outcome = make(Crash(points=points), trial)

    assert outcome.status == "passed", outcome
    assert deaths(outcome.summary) == points


@pytest.mark.full
def test_a_step_that_counts_its_calls_in_a_file_is_found(verified):
    with verified.trial(verified.write(COUNTING)) as trial:
        outcome = make(Crash(points=["stage.written"]), trial)

    assert outcome.status == "failed"
    (finding,) = outcome.findings
    assert (finding.step, finding.check) == ("counted", "crash")
    assert "killed at stage.written (rows are staged on the branch" in finding.what
    assert (*finding.evidence.matches,) == ("v",)
    assert "outside of its tables" in finding.cause


@pytest.mark.full
def test_a_step_that_removes_old_rows_first_is_found_by_who_reads_after_its_death(verified):
    verified.lab.declare(FILES)
    with verified.trial(verified.write(REMOVING)) as trial:
        # Of the unit itself nothing is there to be removed: the step is killed when it replaces a unit.
        outcome = make(Crash(points=["stage.written"]), trial)

    assert outcome.status == "failed", outcome
    assert "after a death at stage.written a reader sees neither version: " in outcome.findings[0].what


@pytest.mark.full
def test_a_point_at_which_nobody_dies_is_not_covered(verified):
    # Given a process that has another pipeline than the one that is verified: it ends before any point.
    with verified.trial(verified.write(HEALTHY)) as trial:
        other = verified.write("", name="empty")
        outcome = make(Crash(points=["stage.written"]), replace(trial, place=other))

    assert outcome.status == "not run"
    assert "doubled at stage.written" in outcome.summary
    assert "is not the pipeline that is verified" in outcome.summary


def test_a_pipeline_that_no_other_process_can_import_is_not_checked(verified):
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Crash(), replace(trial, place=""))

    assert outcome.status == "not run"
    assert "put the pipeline into a module" in outcome.summary
    assert "TWICE_FAILPOINT" not in os.environ
