"""What becomes of a chunk that raises, decided without Spark: halved, put back, taken apart or failed."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.backfill.conftest import day, january
from tests.backfill.test_planning import Plans
from twice.backfills import work
from twice.backfills.work import Worker
from twice.engine.chunks.options import SpotCheck
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


class WorkedChunks:
    """A worker on chunks of a real ledger; computing a chunk with the sick day raises."""

    def __init__(self, folder, monkeypatch) -> None:
        self.plans = Plans(folder)
        self.store = SimpleNamespace(abilities=SimpleNamespace(side_by_side=True))
        self.ledger = self.plans.ledger
        self.worker = Worker(
            SimpleNamespace(ledger=self.ledger, stores=SimpleNamespace(of=lambda _table: self.store)),
            self.plans.planner(),
            "twice backfill",
        )
        self.error: Exception = StepFailed("rotten")
        self.rows, self.sick = 1, SICK
        self.ran: list[str] = []
        # What is done while a chunk is computed, with its spot check.
        self.meanwhile = lambda _spot_check: None
        monkeypatch.setattr(work, "run_planned_step", self._compute)
        self.backfill = self.ledger.backfills.start(
            "shop", Scope(january(1, 9)), ["lake.s.facts"], request={}, code={}, parallel=1, ttl=timedelta(hours=1)
        )
        self.ledger.backfills.chunks.lay_out(
            self.backfill, 1, "facts", [NewChunk(Scope(january(1, 9)), 8)], {"step": "facts"}
        )

    def _compute(self, _runtime, _pipeline, stage, _run, *, chunk, **_how):
        self.ran.append(str(stage.scope))
        self.meanwhile(chunk.spot_check if chunk.check_alone else None)
        if self.sick is not None and stage.scope.window.covers(self.sick):
            raise self.error
        return SimpleNamespace(refused={}, rows=self.rows, seconds=1.0, status="published")

    def once(self, *, check=False):
        chunk = self.ledger.backfills.chunks.take(self.backfill, check=check)
        return self.worker.run(chunk, check=check, skip_fresh=False)

    def all(self, *, check=False) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        while chunk := self.ledger.backfills.chunks.take(self.backfill, check=check):
            self.worker.run(chunk, check=check, skip_fresh=False)
        for chunk in self.ledger.backfills.chunks.list(self.backfill):
            found.setdefault(chunk.state, []).append(str(chunk.scope))
        return found


@pytest.fixture
def chunks(tmp_path, monkeypatch):
    return WorkedChunks(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "error",
    [
        *(kind("one day") for kind in (StepFailed, OutOfScope, MergeRefused, RetriesExhausted, LateData)),
        *(kind("one day") for kind in (SchemaRefused, GateFailed, KeyViolation)),
        ZeroDivisionError("something nobody thought of"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_be_wrong_with_one_partition_is_looked_for_until_it_is_alone(chunks, error):
    chunks.error = error
    found = chunks.all()
    assert found["failed"] == [f"{day(5)}/{day(6)}"]
    assert sorted(found["done"]) == [f"{day(1)}/{day(5)}", f"{day(6)}/{day(7)}", f"{day(7)}/{day(9)}"]


def test_what_is_wrong_with_all_is_not_looked_for(chunks):
    chunks.error = StoreRefused("the table is another")
    assert chunks.once().kind == "failed"
    assert chunks.all() == {"failed": [f"{day(1)}/{day(9)}"]}


def test_a_transient_error_of_the_ledger_is_not_looked_for(chunks):
    chunks.error = RetriesExhausted("failed 3 times")
    chunks.error.__cause__ = LedgerBusy("locked")
    assert chunks.once().kind == "failed"


@pytest.mark.parametrize("kind", [ScopeHeld, LeaseLost])
def test_what_is_held_waits_as_a_whole(chunks, kind):
    chunks.error = kind("somebody else")
    assert chunks.once().kind == "waiting"
    assert chunks.all() == {"waiting": [f"{day(1)}/{day(9)}"]}


def test_what_is_not_separable_is_made_one_by_one(chunks):
    chunks.error = NotSeparable("alone it differs")
    assert chunks.once().kind == "split"
    assert len(chunks.ledger.backfills.chunks.list(chunks.backfill, states=("waiting",))) == 8


SINGLES = [f"{day(number)}/{day(number + 1)}" for number in range(1, 9)]


def halves(chunks) -> None:
    """Let the range wait in two chunks."""
    (whole,) = chunks.ledger.backfills.chunks.list(chunks.backfill)
    parts = [NewChunk(Scope(january(1, 5)), 4), NewChunk(Scope(january(5, 9)), 4)]
    assert chunks.ledger.backfills.chunks.recut([whole], parts)


def test_one_by_one_stays_so_however_short_the_jobs_are(chunks):
    chunks.error = NotSeparable("alone it differs")
    assert chunks.once(check=True).kind == "split"
    chunks.error = StepFailed("rotten")
    found = chunks.all(check=True)
    assert sorted(found["done"] + found["failed"]) == SINGLES
    assert chunks.ran[1:] == SINGLES


def test_the_halves_of_a_chunk_that_raised_are_not_joined_again_nor_do_they_set_the_size_of_others(chunks):
    halves(chunks)
    found = chunks.all(check=True)
    assert found["failed"] == [f"{day(5)}/{day(6)}"]
    # Each part was computed once, and nothing twice
    assert sorted(found["done"]) == [f"{day(1)}/{day(5)}", f"{day(6)}/{day(7)}", f"{day(7)}/{day(9)}"]
    assert len(chunks.ran) == len(set(chunks.ran))


def test_what_was_made_together_before_one_was_found_to_differ_is_made_again_alone(chunks):
    halves(chunks)
    # By luck the first chunk's witness was the same
    chunks.meanwhile = lambda spot_check: spot_check and spot_check.once(lambda: True)
    assert chunks.once(check=True).kind == "done"
    # A witness of the other one, taken by another process before that was known, is not
    chunks.error = NotSeparable("alone it differs")
    assert chunks.once(check=True).kind == "split"
    waiting = chunks.ledger.backfills.chunks.list(chunks.backfill, states=("waiting",))
    assert sorted(str(chunk.scope) for chunk in waiting) == SINGLES
    assert chunks.ledger.backfills.get(chunks.backfill).plan[0]["why"].startswith("one partition per job from here on")


def test_a_chunk_that_was_put_back_meanwhile_is_cut_when_it_is_taken(chunks):
    halves(chunks)
    chunks.ledger.backfills.set_parallel(chunks.backfill, 2)
    other, late = (chunks.ledger.backfills.chunks.take(chunks.backfill, check=True) for _ in range(2))
    chunks.ledger.backfills.chunks.go_one_by_one(other, chunks.worker.alone, "alone it differs")
    chunks.ledger.backfills.chunks.put_back(late)
    found = chunks.all(check=True)
    assert sorted(found["done"] + found["failed"]) == SINGLES
    assert str(late.scope) not in chunks.ran


def test_a_chunk_that_ends_after_another_process_found_a_difference_is_not_done(chunks):
    chunks.sick = None
    halves(chunks)
    chunks.ledger.backfills.set_parallel(chunks.backfill, 2)
    other, mine = (chunks.ledger.backfills.chunks.take(chunks.backfill, check=True) for _ in range(2))
    assert other.scope == Scope(january(1, 5))
    late = {
        "once": lambda: chunks.ledger.backfills.chunks.go_one_by_one(other, chunks.worker.alone, "alone it differs")
    }
    chunks.meanwhile = lambda _spot_check: late.pop("once", lambda: None)()
    assert chunks.worker.run(mine, check=True, skip_fresh=False).kind == "split"
    assert (
        sorted(str(c.scope) for c in chunks.ledger.backfills.chunks.list(chunks.backfill, states=("waiting",)))
        == SINGLES
    )


def test_only_a_comparison_of_rows_ticks_the_check_off(chunks):
    chunks.sick = None
    halves(chunks)
    # Nothing was compared: empty, or fresh, or a unit alone
    chunks.meanwhile = lambda spot_check: spot_check and spot_check.once(lambda: False)
    chunks.rows = 0
    chunk = chunks.ledger.backfills.chunks.take(chunks.backfill, check=True)
    assert chunk.spot_check
    chunks.worker.run(chunk, check=False, skip_fresh=False)
    chunk = chunks.ledger.backfills.chunks.take(chunks.backfill, check=True)
    assert chunk.spot_check
    # Compared
    chunks.meanwhile = lambda spot_check: spot_check and spot_check.once(lambda: True)
    chunks.worker.run(chunk, check=False, skip_fresh=False)
    assert chunks.ledger.backfills.chunks.step_note(chunks.backfill, 1)["compared"]


def test_a_refusal_holds_for_all_chunks_of_the_step_in_this_process():
    spot_check = SpotCheck()

    def differs():
        raise NotSeparable("alone it differs")

    with pytest.raises(NotSeparable):
        spot_check.once(differs)
    # The one that waited meanwhile might pass by luck
    with pytest.raises(NotSeparable, match="alone it differs"):
        spot_check.once(lambda: True)
    assert not spot_check.passed


def test_a_day_that_somebody_holds_for_long_is_looked_for_so_that_the_others_go_on(chunks):
    chunks.error = ScopeHeld("held by run 7")
    chunks.worker.pause = timedelta(0)
    found = chunks.all()
    assert found["failed"] == [f"{day(5)}/{day(6)}"]
    assert sorted(found["done"]) == [f"{day(1)}/{day(5)}", f"{day(6)}/{day(7)}", f"{day(7)}/{day(9)}"]
    assert chunks.ran.count(f"{day(1)}/{day(9)}") == 2
    assert chunks.ran.count(f"{day(5)}/{day(6)}") == 60


def test_where_a_claim_takes_the_whole_table_nothing_is_gained_by_halves(chunks):
    chunks.error = ScopeHeld("held by run 7")
    chunks.store.abilities.side_by_side = False
    chunks.worker.pause = timedelta(0)
    assert chunks.all() == {"failed": [f"{day(1)}/{day(9)}"]}
