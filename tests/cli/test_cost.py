"""`twice cost`: what attempts wrote down, added up by whose they were."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from twice.ledger import ManualClock, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

ONE = datetime(2026, 4, 1, tzinfo=timezone.utc)
DAY = Scope(Window(ONE, ONE + timedelta(days=1)))


@pytest.fixture
def spend(project):
    """Write down an attempt that ended some days ago."""

    def spent(days_ago: float, step: str, seconds: float, *, pipeline="shop", end="published", **tags: str) -> None:
        clock = ManualClock(datetime.now(timezone.utc) - timedelta(days=days_ago))
        ledger = open_ledger(f"sqlite:///{project.ledger}", clock=clock)
        run = ledger.runs.start(pipeline, DAY, tags=tags)
        row = ledger.attempts.start(run, step, f"lake.a.{step}", 1, DAY, code="c")
        cost = {"executor_seconds": seconds, "cpu_seconds": seconds / 2, "bytes_read": 2_500_000, "bytes_written": 999}
        ledger.attempts.finish(row, end, details={"cost": cost} if seconds else {})
        ledger.runs.finish(run, "done")

    return spent


def costs(project, *options: str) -> dict[str, tuple[int, float]]:
    found = project.call("cost", *options, "--json")
    assert found.code == 0, found.err
    return {line["name"]: (line["runs"], line["executor_seconds"]) for line in found.json["costs"]}


def test_nothing_ran(project):
    assert project.call("cost").out == "no runs yet\n"
    assert costs(project) == {}


def test_s31_whose_money(project, spend):
    spend(1, "orders", 10, project="apollo", requester="ana", backfill="b1")
    spend(1, "build", 2.5, project="apollo", backfill="b1")
    spend(1, "build", 4, project="gemini")
    spend(1, "build", 1)
    assert costs(project, "--by", "project") == {"apollo": (2, 12.5), "gemini": (1, 4.0), "(no project)": (1, 1.0)}
    assert costs(project, "--by", "backfill") == {"b1": (2, 12.5), "(no backfill)": (2, 5.0)}
    assert costs(project, "--by", "step") == {"shop.orders": (1, 10.0), "shop.build": (3, 7.5)}
    assert costs(project) == {"shop": (4, 17.5)}


def test_what_a_shadow_cost_is_its_pipelines(project, spend):
    spend(1, "orders", 10, pipeline="shop@06a2wk", project="apollo")
    spend(1, "orders", 1, pipeline="shop_too")
    assert costs(project, "shop", "--by", "project") == {"apollo": (1, 10.0)}
    assert costs(project) == {"shop": (1, 10.0), "shop_too": (1, 1.0)}


def test_since_and_one_pipeline_limit_it(project, spend):
    spend(10, "orders", 10, project="apollo")
    spend(1, "orders", 1, project="apollo")
    spend(1, "orders", 5, pipeline="other")
    assert costs(project, "--since", "7d") == {"shop": (1, 1.0), "other": (1, 5.0)}
    assert costs(project, "shop", "--by", "project") == {"apollo": (2, 11.0)}
    assert project.call("cost", "--since", "1h").out == "no runs in the last 1h\n"


def test_what_failed_counts_and_what_cannot_tell_is_counted(project, spend):
    spend(1, "orders", 3, end="failed")
    spend(1, "orders", 0, end="interrupted")
    said = project.call("cost", "--by", "step")
    assert said.out.splitlines() == [
        "step         runs  executor s  cpu s  read    written  shuffled",
        "shop.orders  2     3.0         1.5    2.5 MB  999 B    0 B",
        "1 attempt used no Spark, or ended without reporting what was used",
    ]


def test_bad_words_are_refused(project):
    assert project.call("cost", "--since", "soon").code == 2
    assert project.call("cost", "--by", " ").code == 2
    assert project.call("cost", "nothing").code == 2


def test_a_tag_that_no_run_has_is_refused_with_the_nearest(project, spend):
    spend(10, "orders", 3, project="apollo", requester="ana")
    spend(1, "orders", 3)
    said = project.call("cost", "--by", "projct")
    assert (said.code, said.out) == (2, "")
    assert "no run has a tag 'projct'; --by takes: backfill, pipeline, step, project, requester" in said.err
    assert "Did you mean project?" in said.err
    assert project.call("cost", "--by", "nothing").code == 2
    assert costs(project, "--by", "project", "--since", "7d") == {"(no project)": (1, 3.0)}
    assert costs(project, "--by", "backfill") == {"(no backfill)": (2, 6.0)}
