"""`double-fire`: two processes really run at once, and a step that notices is found."""

from __future__ import annotations

import pytest

from tests.support.verified import HEALTHY, Verified
from twice.verify.checks.double_fire import DoubleFire
from twice.verify.running import make

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# A batch number that each process takes from a file when it starts.
NUMBERED = """
counter = Path(__file__).with_suffix(".count")
with counter.open("a") as lines:
    lines.write("started\\n")
NUMBER = counter.read_text().count("started")


@pipeline.step(reads={"raw": raw}, writes=out)
def numbered(raw):
    return raw.select("id", "d", F.lit(NUMBER).alias("v"))
"""


@pytest.fixture
def verified(lab, monkeypatch):
    return Verified(lab, monkeypatch)


@pytest.mark.full
def test_a_healthy_unit_is_published_once(verified):
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(DoubleFire(), trial)

    assert outcome.status == "passed", outcome
    assert "one published 1 table" in outcome.summary
    assert "one ended held" in outcome.summary or "one had nothing to change" in outcome.summary
    assert " reads meanwhile saw whole versions" in outcome.summary
    assert " 0 reads" not in outcome.summary


@pytest.mark.full
def test_a_step_that_gives_each_process_its_own_number_is_found(verified):
    with verified.trial(verified.write(NUMBERED)) as trial:
        outcome = make(DoubleFire(), trial)

    assert outcome.status == "failed"
    finding = outcome.findings[0]
    assert finding.step == "numbered"
    assert finding.what == "two runs at once leave other rows than a clean run"
    assert (*finding.evidence.matches,) == ("v",)
    assert "in which process" in finding.cause
