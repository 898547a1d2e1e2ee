"""What becomes of a chunk that raises, decided without Spark: halved, put back, taken apart or failed."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.backfill.conftest import day, january
from tests.backfill.test_planning import Desk
from twice.backfill import work
from twice.backfill.work import Worker
from twice.errors import (
    GateFailed,
    KeyViolation,
    LateData,
    LeaseLost,
    LedgerBusy,
    MergeRefused,
    NotSeparable,
    OutOfScope,
    RetriesExhausted,
    SchemaRefused,
    ScopeHeld,
    StepFailed,
    StoreRefused,
)
from twice.ledger import NewChunk
from twice.model.scopes import Scope

SICK = january(5, 6)


class Bench:
    """A worker on chunks of a real ledger; computing a chunk with the sick day raises."""

    def __init__(self, folder, monkeypatch) -> None:
        self.desk = Desk(folder)
        self.ledger = self.desk.ledger
        self.worker = Worker(
            SimpleNamespace(ledger=self.ledger, stores=SimpleNamespace(of=lambda _table: None)),
            self.desk.planner(),
            "twice backfill",
        )
        self.error: Exception = StepFailed("rotten")
        monkeypatch.setattr(work, "run_stage", self._compute)
        self.backfill = self.ledger.start_backfill(
            "shop", Scope(january(1, 9)), ["lake.s.facts"], request={}, code={}, parallel=1, ttl=timedelta(hours=1)
        )
        self.ledger.lay_out(self.backfill, 1, "facts", [NewChunk(Scope(january(1, 9)), 8)], {"step": "facts"})

    def _compute(self, _workshop, _pipeline, stage, _run, **_how):
        if stage.scope.window.covers(SICK):
            raise self.error
        return SimpleNamespace(refused={}, rows=1, seconds=1.0, status="published")

    def once(self):
        return self.worker.run(self.ledger.take_chunk(self.backfill), check=False, skip_fresh=False)

    def all(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        while chunk := self.ledger.take_chunk(self.backfill):
            self.worker.run(chunk, check=False, skip_fresh=False)
        for chunk in self.ledger.chunks(self.backfill):
            found.setdefault(chunk.state, []).append(str(chunk.scope))
        return found


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "error",
    [
        *(kind("one day") for kind in (StepFailed, OutOfScope, MergeRefused, RetriesExhausted, LateData)),
        *(kind("one day") for kind in (SchemaRefused, GateFailed, KeyViolation)),
        ZeroDivisionError("something nobody thought of"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_be_wrong_with_one_partition_is_looked_for_until_it_is_alone(bench, error):
    bench.error = error
    found = bench.all()
    assert found["failed"] == [f"{day(5)}/{day(6)}"]
    assert sorted(found["done"]) == [f"{day(1)}/{day(5)}", f"{day(6)}/{day(7)}", f"{day(7)}/{day(9)}"]


def test_what_is_wrong_with_all_is_not_looked_for(bench):
    bench.error = StoreRefused("the table is another")
    assert bench.once().kind == "failed"
    assert bench.all() == {"failed": [f"{day(1)}/{day(9)}"]}


def test_weather_over_the_ledger_is_not_looked_for(bench):
    bench.error = RetriesExhausted("failed 3 times")
    bench.error.__cause__ = LedgerBusy("locked")
    assert bench.once().kind == "failed"


@pytest.mark.parametrize("kind", [ScopeHeld, LeaseLost])
def test_what_is_held_waits_as_a_whole(bench, kind):
    bench.error = kind("somebody else")
    assert bench.once().kind == "waiting"
    assert bench.all() == {"waiting": [f"{day(1)}/{day(9)}"]}


def test_what_is_not_separable_is_made_one_by_one(bench):
    bench.error = NotSeparable("alone it differs")
    assert bench.once().kind == "split"
    assert len(bench.ledger.chunks(bench.backfill, states=("waiting",))) == 8
