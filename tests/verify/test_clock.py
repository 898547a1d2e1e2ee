"""`clock`: a step that says when it ran is found, in the driver, in Spark's workers and by its time zone."""

from __future__ import annotations

import time

import pytest

from tests.support.verified import HEALTHY, Verified
from twice.verify import clocks
from twice.verify.checks.clock import Clock
from twice.verify.running import make

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# Ways to the clock that reading the step's own code does not find.
EVERYWHERE = """
@pipeline.step(reads={"raw": raw}, writes=out)
def dated(raw):
    today = __import__("datetime").date.today()
    in_workers = F.udf(lambda _: str(__import__("datetime").date.today()))
    return raw.select("id", "d", F.lit(str(today)).alias("v"), in_workers("id").alias("w"))
"""
CAPTURED = """
TODAY = str(__import__("datetime").date.today())


@pipeline.step(reads={"raw": raw}, writes=out)
def dated(raw):
    return raw.select("id", "d", F.lit(TODAY).alias("v"))
"""
ZONE = """
@pipeline.step(reads={"raw": raw}, writes=out)
def dated(raw):
    hours = getattr(__import__("time"), "localtime")(0).tm_hour
    return raw.select("id", "d", F.lit(hours).alias("v"))
"""


@pytest.fixture
def verified(lab, monkeypatch):
    return Verified(lab, monkeypatch)


@pytest.mark.full
def test_a_healthy_step_is_the_same_at_another_time(verified):
    zones = verified.lab.spark._jvm.java.util.TimeZone
    before = zones.getDefault().getID(), verified.lab.spark.conf.get("spark.sql.session.timeZone")
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Clock(), trial)

    assert outcome.status == "passed", outcome
    assert "40 days and 7 hours later" in outcome.summary
    # This process and Spark are where they were.
    assert (zones.getDefault().getID(), verified.lab.spark.conf.get("spark.sql.session.timeZone")) == before
    assert verified.lab.spark.newSession().conf.get("spark.sql.session.timeZone") == before[1]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param(EVERYWHERE, {"v", "w"}, id="everywhere"),
        pytest.param(CAPTURED, {"v"}, id="captured", marks=pytest.mark.full),
        pytest.param(ZONE, {"v"}, id="zone", marks=pytest.mark.full),
    ],
)
def test_a_step_that_knows_when_it_runs_is_found(verified, text, columns):
    with verified.trial(verified.write(text)) as trial:
        outcome = make(Clock(), trial)

    assert outcome.status == "failed", outcome
    (finding,) = outcome.findings
    assert (finding.step, {*finding.evidence.matches}) == ("dated", columns)
    assert "the window" in finding.fix


def test_without_the_library_it_is_not_run(verified, monkeypatch):
    monkeypatch.setattr(clocks, "LIBRARY", "no_such_library")
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Clock(), trial)

    assert outcome.status == "not run"
    assert "pip install 'twice[verify]'" in outcome.summary


def test_a_moved_clock_goes_on_ticking_and_comes_back():
    here = time.time()
    with clocks.moved_clock(1000.0):
        first = time.time()
        assert 999 < first - here < 1100
        while time.time() == first:
            pass
    assert time.time() - here < 100
