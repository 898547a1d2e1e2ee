"""`reader`: reads happen at every point of the publish, and a step that takes rows away before it is found."""

from __future__ import annotations

import pytest

from tests.support.verified import FILES, HEALTHY, REMOVING, Verified
from twice.verify.checks.reader import Reader
from twice.verify.running import make

pytestmark = [pytest.mark.spark]

ON_FILES = """
files = Table("files.small.out", partition=Day("d"), key=("id",), write=Overwrite())


@pipeline.step(reads={"raw": raw}, writes=files)
def doubled(raw):
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


@pytest.mark.full
def test_a_healthy_publish_shows_whole_versions(verified):
    with verified.trial(verified.write(HEALTHY)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "passed", outcome
    count, _, rest = outcome.summary.partition(" ")
    # Once at each point of the publish, at least.
    assert int(count) >= 7
    assert rest == "reads of 1 table during the publish: each saw a whole version"


@pytest.mark.full
def test_a_healthy_publish_to_files_shows_whole_versions(verified):
    verified.lab.declare(FILES)
    with verified.trial(verified.write(ON_FILES)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "passed", outcome


@pytest.mark.full
def test_a_step_that_removes_old_rows_first_is_found(verified):
    verified.lab.declare(FILES)
    with verified.trial(verified.write(REMOVING)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "failed", outcome
    (finding,) = outcome.findings
    assert finding.step == "replaced"
    # Of two and four rows, every second one came first; the day's were gone before the others came.
    assert "saw neither version: 1 row, where it had 3 rows before and 5 rows afterwards" in finding.what
    assert "before twice publishes" in finding.cause


@pytest.mark.full
def test_without_a_publish_there_is_nothing_to_see(verified):
    with verified.trial(verified.write(CONSTANT)) as trial:
        outcome = make(Reader(), trial)

    assert outcome.status == "not run"
    assert "there is no publish to watch" in outcome.summary
