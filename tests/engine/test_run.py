"""How a run ends, whatever ends it: told without Spark."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from twice import Day, Overwrite, Pipeline, Table
from twice.engine import run as running
from twice.engine.attempt.outputs import Finding
from twice.engine.attempt.task import Task
from twice.engine.events import Event
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.plan import PlannedStep, plan
from twice.engine.run import Runtime, execute
from twice.errors import Interrupted, LedgerBusy, LedgerError, ScopeHeld, StepFailed
from twice.ledger import open_ledger


def stages() -> tuple[Pipeline, list[PlannedStep]]:
    pipeline = Pipeline("shop", grain=Day)
    facts = Table("lake.a.facts", partition=Day("d"), write=Overwrite())
    pipeline.sql("facts", reads={}, writes=facts, query="select 1")
    return pipeline, plan(pipeline, Day.unit("2026-04-25", pipeline.zone))


@pytest.mark.parametrize(("shadow", "status", "shown"), [
    (False, "published", "published"), (True, "published", "built"), (True, "unchanged", "unchanged"),
])  # fmt: skip
def test_what_a_shadow_made_is_built_and_not_published(shadow, status, shown):
    pipeline, (stage,) = stages()
    step = dataclasses.replace(stage.step, shadow_of=stage.step) if shadow else stage.step
    heard: list[Event] = []
    nothing: dict[str, object] = dict.fromkeys(("session", "stores", "ledger"))
    task = Task(
        pipeline, step, stage.scope, stage.target, "r", "c", lease=timedelta(1), listener=heard.append, **nothing
    )
    assert running.run_step(task, lambda _task: Finding(status, [], 3, None)).status == shown
    assert [event.state for event in heard] == [shown]


@pytest.fixture
def ledger(tmp_path):
    return open_ledger(f"sqlite:///{tmp_path}/ledger.db")


def ended(ledger) -> tuple[str, str]:
    (info,) = ledger.runs.list()
    return info.status, info.error


def refuse(error: BaseException):
    def call(*_: object) -> object:
        raise error

    return call


@pytest.mark.parametrize("where", ["stores", "spark"])
def test_a_run_that_something_unexpected_stops_has_failed_and_is_not_running(monkeypatch, ledger, where):
    pipeline, planned = stages()
    problem = Py4JNetworkError("the JVM does not answer")
    stores = SimpleNamespace(of=refuse(problem) if where == "stores" else lambda _table: None)
    monkeypatch.setattr("twice.engine.spark.jvm.activate", lambda _session: None)
    heard: list[Event] = []
    spark = SimpleNamespace(newSession=refuse(problem), sparkContext=SimpleNamespace(applicationId="of this test"))
    shop = Runtime(spark, stores, ledger, listener=heard.append)
    with pytest.raises(Py4JNetworkError):
        execute(shop, pipeline, planned)
    assert ended(ledger) == ("failed", "the JVM does not answer")
    assert [event.state for event in heard] == ["started", "failed"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(1)])
def test_ctrl_c_while_the_end_is_written_leaves_no_run_running(monkeypatch, ledger, interrupt):
    calls = fail_once(monkeypatch, ledger, interrupt)
    with pytest.raises(type(interrupt)), recorded_run(ledger, "shop", stages()[1][0].scope):
        pass
    assert ended(ledger) == ("done", "")
    assert calls == ["done", "done"]


def test_a_busy_ledger_is_asked_again_for_the_end(monkeypatch, ledger):
    fail_once(monkeypatch, ledger, LedgerBusy("locked"))
    with recorded_run(ledger, "shop", stages()[1][0].scope):
        pass
    assert ended(ledger) == ("done", "")


def test_what_ended_a_run_is_not_hidden_by_a_ledger_out_of_reach(monkeypatch, ledger):
    monkeypatch.setattr(type(ledger.runs), "finish", refuse(LedgerError("gone")))
    with pytest.raises(StepFailed, match="boom"), recorded_run(ledger, "shop", stages()[1][0].scope):
        raise StepFailed("boom")


@pytest.mark.parametrize(("error", "status"), [
    (KeyboardInterrupt(), "interrupted"), (Interrupted("stopped"), "interrupted"), (ScopeHeld("by another"), "held"),
    (StepFailed("boom"), "failed"), (ValueError("boom"), "failed"),
])  # fmt: skip
def test_a_run_ends_as_its_error_says(ledger, error, status):
    with pytest.raises(type(error)), recorded_run(ledger, "shop", stages()[1][0].scope):
        raise error
    assert ended(ledger)[0] == status
    assert ended(ledger)[1]


def fail_once(monkeypatch, ledger, error: BaseException) -> list[str]:
    """Let the first end of a run be stopped before it is written."""
    real, calls = ledger.runs.finish, []

    def finish(_runs, run, status, error_text=""):
        calls.append(status)
        if len(calls) == 1:
            raise error
        real(run, status, error_text)

    monkeypatch.setattr(type(ledger.runs), "finish", finish)
    return calls
