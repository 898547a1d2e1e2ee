"""`twice rebuild` up to where Spark begins: what it plans and what it refuses."""

from __future__ import annotations

import pytest


@pytest.fixture
def story(project):
    return project.story()


def test_a_dry_run_names_the_windows(project, story):
    assert "nothing has been merged" in project.call("rebuild", "lake.core.people", "--dry-run").err
    story.publish("merge", story.scope(1))
    assert project.call("rebuild", "lake.core.people", "--dry-run").out == (
        "would rebuild lake.core.people: merge for 1 day window (2026-04-01), merged in order and put in the "
        "table's place\n"
    )
    story.publish("merge", story.scope(3))
    _, row = story.attempt("merge", story.scope(9))
    story.ledger.attempts.finish(row, "failed", error="boom")
    said = project.call("rebuild", "lake.core.people", "--dry-run", "--json")
    assert said.json["windows"] == ["2026-04-01", "2026-04-02", "2026-04-03"]
    assert (said.json["pipeline"], said.json["step"]) == ("shop", "merge")


def test_without_a_terminal_it_needs_a_yes(project, story):
    story.publish("merge", story.scope(1))
    said = project.call("rebuild", "lake.core.people")
    assert said.code == 2
    assert "twice rebuild lake.core.people --yes" in said.err


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("lake.core.facts", "needs no rebuild: its runs overwrite the scope"),
        ("lake.raw.orders", "needs no rebuild"),
        ("lake.core.nothing", "no step of the configured pipelines writes"),
        ("nothing", "nothing"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused(project, table, why):
    said = project.call("rebuild", table, "--yes")
    assert said.code == 2
    assert why in said.err
