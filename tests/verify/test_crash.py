"""`crash`: processes are really killed, and a step that remembers something outside of its tables is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.verified import HEALTHY, Verified
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


@pytest.fixture
def verified(lab, monkeypatch):
    return Verified(lab, monkeypatch)


def test_a_healthy_step_survives_a_death_at_every_point_that_it_reaches(verified):
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Crash(), trial)

    print(outcome)
    assert outcome.status == "passed", outcome
