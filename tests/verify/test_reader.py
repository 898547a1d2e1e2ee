"""`reader`: reads happen at every point of the publish, and a step that takes rows away before it is found."""

from __future__ import annotations

import pytest

from tests.support.verified import HEALTHY, Verified
from twice.verify.checks.reader import Reader
from twice.verify.running import make

pytestmark = [pytest.mark.spark]

# "Make room first": the files of the old rows are removed before the new ones are there.
REMOVING = """
@pipeline.step(reads={"raw": raw, "old": out.latest()}, writes=out)
def replaced(raw, old):
    for file in old.inputFiles():
        Path(file.removeprefix("file:")).unlink()
    return raw.select("id", "d", (F.col("v") * 2).alias("v"))
"""
# Nothing changes when rows come later.
CONSTANT = """
@pipeline.step(reads={"raw": raw}, writes=out)
def constant(raw):
    return raw.groupBy("d").agg(F.lit(1).alias("id"), F.lit(2).alias("v"))
"""


@pytest.fixture
def verified(lab, monkeypatch):
    return Verified(lab, monkeypatch)


def test_a_healthy_publish_shows_whole_versions(verified):
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "passed", outcome
    count, _, rest = outcome.summary.partition(" ")
    # Once at each point of the publish, at least.
    assert int(count) >= 7
    assert rest == "reads of 1 table during the publish: each saw a whole version"


def test_a_step_that_removes_the_old_rows_first_is_found(verified):
    with verified.trial(verified.write(REMOVING)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "failed", outcome
    (finding,) = outcome.findings
    assert finding.step == "replaced"
    assert "during the publish" in finding.what
    assert "before twice publishes" in finding.cause


def test_without_a_publish_there_is_nothing_to_see(verified):
    with verified.trial(verified.write(CONSTANT)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "not run"
    assert "there is no publish to watch" in outcome.summary
