"""`environment`: a step that notices where it runs is found, in the driver and in Spark's workers."""

from __future__ import annotations

import os

import pytest

from tests.support.verified import HEALTHY, Verified
from twice.verify.checks.environment import Environment
from twice.verify.running import make

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# What the step says when it is asked where it is; each needs another part of the check.
PLACES = {
    "home": '__import__("os").path.expanduser("~")',
    "variable": '__import__("os").environ.get("SHOP_REGION", "none")',
    "directory": 'str(Path(".").resolve())',
    "locale": '__import__("locale").setlocale(0)',
    "seed": 'str(hash("a"))',
}
STEP = """
@pipeline.step(reads={"raw": raw}, writes=out)
def placed(raw):
    return raw.select("id", "d", F.lit(%s).alias("v"))
"""
EVERYWHERE = """
@pipeline.step(reads={"raw": raw}, writes=out)
def placed(raw):
    seed = F.udf(lambda _: str(hash("a")))
    home = F.udf(lambda _: __import__("os").path.expanduser("~"))
    place = F.udf(lambda _: __import__("os").path.abspath("."))
    region = __import__("os").environ.get("SHOP_REGION", "none")
    found = {"v": seed("id"), "home": home("id"), "place": place("id"), "region": F.lit(region)}
    return raw.select("id", "d", *(each.alias(name) for name, each in found.items()))
"""


@pytest.fixture
def verified(lab, monkeypatch):
    return Verified(lab, monkeypatch)


@pytest.mark.full
def test_a_healthy_step_is_the_same_elsewhere(verified):
    before = dict(os.environ)
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Environment(), trial)

    assert outcome.status == "passed", outcome
    assert "HOME, USER, TZ, LANG, PYTHONHASHSEED" in outcome.summary
    assert dict(os.environ) == before


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
def test_a_step_that_looks_at_its_surroundings_is_found(verified, place):
    with verified.trial(verified.write(STEP % PLACES[place])) as trial:
        outcome = make(Environment(), trial)

    assert outcome.status == "failed", outcome
    (finding,) = outcome.findings
    assert (finding.step, (*finding.evidence.matches,)) == ("placed", ("v",))
    assert ("a step reads SHOP_REGION" in finding.cause) == (place == "variable")


def test_a_step_that_looks_around_is_found_in_the_driver_and_in_workers(verified):
    with verified.trial(verified.write(EVERYWHERE)) as trial:
        outcome = make(Environment(), trial)

    assert outcome.status == "failed", outcome
    (finding,) = outcome.findings
    assert "a step reads SHOP_REGION" in finding.cause
    assert {*finding.evidence.matches} == {"v", "home", "place", "region"}


def test_a_pipeline_that_does_not_even_run_elsewhere_is_found(verified):
    (verified.lab.folder / "rate.txt").write_text("2")
    verified.monkeypatch.chdir(verified.lab.folder)
    text = 'RATE = int(open("rate.txt").read())\n' + HEALTHY
    with verified.trial(verified.write(text)) as trial:
        outcome = make(Environment(), trial)

    assert outcome.status == "failed"
    (finding,) = outcome.findings
    assert "in another environment the unit does not run" in finding.what
    assert "rate.txt" in finding.what
