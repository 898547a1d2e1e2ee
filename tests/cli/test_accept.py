"""`twice accept`: what only a change of code made stale is done again, and nothing else changes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.history import TTL
from twice.backfills.needs import units_of
from twice.engine.attempt.fingerprint import fingerprint, parts
from twice.engine.operations.accepting import accept
from twice.engine.status import status
from twice.errors import PermanentError, ScopeHeld, UsageError


def names(partitions) -> list[str]:
    return [partition.name for partition in partitions]


def test_what_is_stale_by_code_alone_is_accepted_and_history_shows_it(story):
    story.ledger.codes.keep("old", parts(story.pipeline.steps["raw"]) | {"sql": "other"})
    old = story.publish("raw", story.scope(1), story.scope(2), code="old")
    story.publish("raw", story.scope(3))
    before = {output.scope: output for output in story.ledger.outputs.list("lake.a.raw")}

    run, [done] = accept(story.ledger, story.pipeline, command="twice accept shop")

    assert (done.step, names(done.accepted), done.refused) == ("raw", ["2026-04-01", "2026-04-02"], ())
    assert done.changed == ("its query",)
    assert set(story.states("raw").values()) == {"done"}
    after = {output.scope: output for output in story.ledger.outputs.list("lake.a.raw")}
    assert {scope: (o.rows, o.digest, o.files, o.version, o.inputs) for scope, o in before.items()} == {
        scope: (o.rows, o.digest, o.files, o.version, o.inputs) for scope, o in after.items()
    }
    assert after[story.scope(1)].code == fingerprint(story.pipeline.steps["raw"])
    kept = story.ledger.runs.get(run)
    assert (kept.command, kept.status, kept.attempts[0].status) == ("twice accept shop", "done", "accepted")
    assert story.ledger.runs.get(old).status == "done"
    assert story.ledger.leases.list() == []
    assert accept(story.ledger, story.pipeline) == (None, [])


def test_a_dry_run_changes_nothing(story):
    story.publish("raw", story.scope(1), code="old")
    run, [would] = accept(story.ledger, story.pipeline, dry_run=True)
    assert (run, names(would.accepted)) == (None, ["2026-04-01"])
    assert story.states("raw") == {"2026-04-01": "stale"}


def test_data_is_not_accepted(story):
    story.publish("raw", story.scope(1), story.scope(2), digest="2-b-b-c")
    story.publish("facts", story.scope(1), inputs=story.reads(1), code="old")
    story.publish("facts", story.scope(2), inputs=story.reads(2, "digest:2-b-b-c"), code="old")
    _, [done] = accept(story.ledger, story.pipeline)
    assert (names(done.accepted), names(done.refused)) == (["2026-04-02"], ["2026-04-01"])
    assert story.states("facts") == {"2026-04-01": "stale", "2026-04-02": "done"}


def test_steps_and_ranges_limit_it(story):
    story.publish("raw", *[story.scope(day) for day in (1, 2, 3)], code="old")
    story.publish("people", story.scope(1), code="old")
    second = story.scope(2).window
    accept(story.ledger, story.pipeline, second.start, second.end, steps=["raw"])
    assert list(story.states("raw").values()) == ["stale", "done", "stale"]
    assert story.states("people") == {"whole table": "stale"}
    accept(story.ledger, story.pipeline, steps=["people"])
    assert story.states("people") == {"whole table": "done"}
    with pytest.raises(UsageError, match="no step 'rawr'"):
        accept(story.ledger, story.pipeline, steps=["rawr"])


def test_every_window_of_a_merged_table_is_accepted_at_once(story):
    for day in (1, 2):
        story.publish("people", story.scope(day), code="old")
    accept(story.ledger, story.pipeline, steps=["people"])
    story.publish("people", story.scope(3), code="older")

    (found,) = [step for step in status(story.ledger, story.pipeline) if step.step == "people"]
    windows = [story.scope(day).window for day in (1, 2, 3, 4)]
    whole = story.scope(1, 4)
    units = units_of(story.ledger, story.pipeline, story.pipeline.steps["people"], found, windows, whole)
    assert [unit.state for unit in units] == ["done", "done", "stale", "missing"]


def test_a_failure_between_accepted_partitions_stays_visible(story):
    story.publish("raw", *[story.scope(day) for day in (1, 2, 3)], code="old")
    _, row = story.attempt("raw", story.scope(2))
    story.ledger.attempts.finish(row, "failed", error="boom")
    accept(story.ledger, story.pipeline)
    assert list(story.states("raw").values()) == ["done", "failed", "done"]


def test_what_one_tenant_ran_with_the_new_code_stays_recorded(story):
    story.publish("facts", story.scope(1), code="old")
    story.publish("facts", story.scope(1, tenant="acme"), digest="7-a-b-c")
    accept(story.ledger, story.pipeline)
    held = {output.scope: output.digest for output in story.ledger.outputs.list("lake.a.facts")}
    assert held == {story.scope(1): "1-a-b-c", story.scope(1, tenant="acme"): "7-a-b-c"}
    assert set(story.states("facts").values()) == {"done"}


def test_a_scope_at_work_is_not_accepted(story):
    story.publish("raw", story.scope(1), code="old")
    story.ledger.leases.claim("lake.a.raw", [story.scope(1)], ttl=TTL)
    with pytest.raises(ScopeHeld):
        accept(story.ledger, story.pipeline)
    assert story.states("raw") == {"2026-04-01": "stale"}
    assert sorted(run.status for run in story.ledger.runs.list()) == ["done", "held"]


def test_a_killed_run_is_settled_by_a_run_and_not_by_an_acceptance(story):
    story.publish("raw", story.scope(1), code="old")
    story.ledger.leases.claim("lake.a.raw", [story.scope(1)], ttl=TTL)
    story.clock.advance(2 * TTL)
    with pytest.raises(PermanentError, match="was killed, and what it left"):
        accept(story.ledger, story.pipeline)
    assert story.states("raw") == {"2026-04-01": "stale"}
    again = story.ledger.leases.claim("lake.a.raw", [story.scope(1)], ttl=timedelta(minutes=1))
    assert [left.token for left in again.abandoned] == [2]


def test_the_command_says_what_it_accepts(project):
    assert project.call("accept", "shop").out == "shop: nothing to accept: no partition is stale by its code alone\n"
    story = project.story()
    story.publish("orders", story.scope(1), story.scope(2), code="old")

    said = project.call("accept", "shop", "--dry-run")
    assert (said.code, said.out) == (
        0,
        "orders → lake.raw.orders: 2026-04-01 … 2026-04-02 (2) would be accepted\n",
    )
    said = project.call("accept", "shop", "--from", "2026-04-02", "--to", "2026-04-03")
    assert (said.code, said.out.splitlines()[0]) == (0, "orders → lake.raw.orders: 2026-04-02 accepted")
    run = said.out.split()[-1]
    assert project.call("show", run, "--json").json["command"].startswith("twice accept shop --from 2026-04-02")

    story.publish("build", story.scope(1), code="old", inputs=story.reads(1, "digest:9-a-b-c"))
    said = project.call("accept", "shop", "--json")
    assert said.code == 0  # its input has another name in this pipeline: nothing is known to have changed
    assert [step["step"] for step in said.json["steps"]] == ["orders", "build"]
    assert project.call("accept", "shop", "--from", "2026-04-03", "--to", "2026-04-02").code == 2
    assert project.call("accept", "shop", "--step", "other").code == 2
    assert project.call("accept", "nothing").code == 2


def test_the_exit_code_tells_of_data_that_changed(project):
    from twice.ledger import InputRecord

    story = project.story()
    start = story.scope(1).window.start.isoformat()
    read = InputRecord("raw", "lake.raw.orders", "window", "1", {start: "digest:9-a-b-c"})
    story.publish("orders", story.scope(1))
    story.publish("build", story.scope(1), code="old", inputs=[read])
    said = project.call("accept", "shop")
    assert said.code == 3
    assert said.out.splitlines() == [
        "shop: nothing to accept: no partition is stale by its code alone",
        "build → lake.core.facts: 2026-04-01 stays stale, run it: lake.raw.orders 2026-04-01 changed",
    ]


def test_ctrl_c_is_recorded_as_interrupted_and_accepts_nothing(story, monkeypatch):
    story.publish("raw", story.scope(1), code="old")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(story.ledger.outputs), "record", interrupt)
    story.clock.advance(timedelta(seconds=1))
    with pytest.raises(KeyboardInterrupt):
        accept(story.ledger, story.pipeline)
    info = story.ledger.runs.list()[0]
    assert (info.status, [attempt.status for attempt in info.attempts]) == ("interrupted", ["interrupted"])
    assert story.ledger.leases.list() == []
    assert story.states("raw") == {"2026-04-01": "stale"}
