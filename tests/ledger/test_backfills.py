"""Backfills in the ledger: their processes, chunks handed out once, requests from outside, the pace of sources."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest

from twice.errors import ScopeHeld, UsageError
from twice.ledger import NewChunk, Owner

MINUTE = timedelta(minutes=1)
FAR = Owner("elsewhere", 7)
FARTHER = Owner("elsewhere", 8)


@pytest.fixture
def begin(ledger, day):
    """Start a backfill of the first ten days, worked on from elsewhere."""

    def start(owner: Owner = FAR, *, first: int = 1, days: int = 10, parallel: int = 2, **dimensions: str) -> str:
        return ledger.backfills.start(
            "shop",
            day(first, days, **dimensions),
            ["lake.facts"],
            request={"place": "shop"},
            code={"facts": "v1"},
            parallel=parallel,
            ttl=MINUTE,
            owner=owner,
        )

    return start


@pytest.fixture
def laid_out(ledger, begin, day):
    """Start a backfill whose first step waits in chunks of two days."""

    def start(chunks: int = 4, **how) -> str:
        backfill = begin(**how)
        wanted = [NewChunk(day(2 * number + 1, 2), 2) for number in range(chunks)]
        assert ledger.backfills.chunks.lay_out(backfill, 1, "facts", wanted, {"step": "facts"})
        return backfill

    return start


def test_chunks_are_handed_out_in_order_and_not_more_at_once_than_allowed(ledger, laid_out, day):
    backfill = laid_out(parallel=2)
    first = ledger.backfills.chunks.take(backfill, owner=FAR)
    second = ledger.backfills.chunks.take(backfill, owner=FAR)
    assert (first.scope, second.scope) == (day(1, 2), day(3, 2))
    assert ledger.backfills.chunks.take(backfill, owner=FAR) is None
    # Another process is bound by the same number; a higher one counts at once
    ledger.backfills.beat(backfill, MINUTE, FARTHER)
    assert ledger.backfills.chunks.take(backfill, owner=FARTHER) is None
    ledger.backfills.set_parallel(backfill, 3)
    assert ledger.backfills.chunks.take(backfill, owner=FARTHER, limit=2) is None
    assert ledger.backfills.chunks.take(backfill, owner=FARTHER).scope == day(5, 2)
    assert ledger.backfills.chunks.finish(first, "done", rows=5)
    assert [tally.to_json() for tally in ledger.backfills.chunks.tallies(backfill)] == [
        {"step": "facts", "done": 2, "running": 4, "waiting": 2, "failed": 0, "blocked": 0, "cancelled": 0, "rows": 5}
    ]


def test_a_step_is_laid_out_once_and_only_in_its_turn(ledger, begin, day):
    backfill = begin()
    assert not ledger.backfills.chunks.lay_out(backfill, 2, "sums", [], {})
    assert ledger.backfills.chunks.lay_out(backfill, 1, "facts", [NewChunk(day(1), 1)], {"why": "mine"})
    assert not ledger.backfills.chunks.lay_out(backfill, 1, "facts", [NewChunk(day(1), 1)], {"why": "theirs"})
    info = ledger.backfills.get(backfill)
    assert (info.step_index, [step["why"] for step in info.plan], len(ledger.backfills.chunks.list(backfill))) == (
        1,
        ["mine"],
        1,
    )


def test_chunks_of_a_process_that_fell_silent_are_taken_again(ledger, laid_out, clock):
    backfill = laid_out()
    lost = ledger.backfills.chunks.take(backfill, owner=FAR)
    clock.advance(timedelta(seconds=61))
    assert ledger.backfills.get(backfill).status == "lost"
    ledger.backfills.join(backfill, ttl=MINUTE, owner=FARTHER)
    again = ledger.backfills.chunks.take(backfill, owner=FARTHER)
    assert (again.id, again.tries, lost.tries) == (lost.id, 2, 1)
    # The first process, back from its sleep, changes nothing
    assert not ledger.backfills.chunks.finish(lost, "failed", error="too late")
    assert ledger.backfills.chunks.finish(again, "done", rows=1)


def test_a_process_of_this_machine_that_was_killed_is_known_to_be_gone(ledger, laid_out):
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    here = Owner(Owner.here().host, child.pid)
    backfill = laid_out(owner=here)
    chunk = ledger.backfills.chunks.take(backfill, owner=here)
    # Not even its lease is waited for
    assert chunk is not None
    assert ledger.backfills.get(backfill).status == "lost"
    mine = Owner.here()
    assert mine.pid == os.getpid()
    ledger.backfills.join(backfill, ttl=MINUTE, owner=mine)
    assert ledger.backfills.chunks.take(backfill, owner=mine).id == chunk.id


def test_two_backfills_of_the_same_partitions_exclude_each_other_while_somebody_works_on_them(ledger, begin, clock):
    first = begin()
    with pytest.raises(ScopeHeld, match=f"overlaps with backfill {first}") as held:
        begin(FARTHER, first=10)
    assert f"cancel {first}" in held.value.next_step
    begin(FARTHER, first=11)
    # Once nobody works on it, it holds nothing; and then cannot come back beside the other
    clock.advance(timedelta(seconds=61))
    second = begin(FARTHER, first=5, days=2)
    with pytest.raises(ScopeHeld, match=f"overlaps with backfill {second}"):
        ledger.backfills.join(first, ttl=MINUTE, owner=FAR)


def test_tenants_do_not_exclude_each_other(ledger, begin):
    begin(tenant="acme")
    begin(FARTHER, tenant="bolt")
    with pytest.raises(ScopeHeld):
        begin(Owner("third", 1))


def test_a_paused_backfill_starts_nothing_and_goes_on_when_told(ledger, laid_out):
    backfill = laid_out()
    ledger.backfills.pause(backfill)
    assert ledger.backfills.chunks.take(backfill, owner=FAR) is None
    assert ledger.backfills.get(backfill).status == "paused"
    ledger.backfills.unpause(backfill)
    ledger.backfills.unpause(backfill)
    assert ledger.backfills.chunks.take(backfill, owner=FAR) is not None
    ledger.backfills.finish(backfill, "done")
    with pytest.raises(UsageError, match="cannot be paused now: it is done"):
        ledger.backfills.pause(backfill)


def test_a_cancelled_backfill_gives_up_what_waits_and_stays_cancelled(ledger, laid_out):
    backfill = laid_out()
    ledger.backfills.chunks.take(backfill, owner=FAR)
    ledger.backfills.cancel(backfill)
    assert ledger.backfills.chunks.take(backfill, owner=FAR) is None
    assert not ledger.backfills.finish(backfill, "done")
    info = ledger.backfills.get(backfill)
    assert (info.status, info.count("cancelled"), info.count("running")) == ("cancelled", 6, 2)
    with pytest.raises(UsageError, match="has ended: it is cancelled"):
        ledger.backfills.join(backfill, ttl=MINUTE)
    with pytest.raises(UsageError, match="has already ended"):
        ledger.backfills.cancel(backfill)


def test_the_last_process_to_leave_leaves_it_interrupted(ledger, laid_out):
    backfill = laid_out()
    ledger.backfills.beat(backfill, MINUTE, FARTHER)
    ledger.backfills.leave(backfill, interrupted=True, owner=FAR)
    assert ledger.backfills.get(backfill).status == "running"
    ledger.backfills.leave(backfill, interrupted=True, owner=FARTHER)
    assert ledger.backfills.get(backfill).status == "interrupted"


def test_whoever_leaves_puts_its_chunks_back(ledger, laid_out):
    backfill = laid_out()
    mine = ledger.backfills.chunks.take(backfill, owner=FAR)
    ledger.backfills.leave(backfill, interrupted=True, owner=FAR)
    assert ledger.backfills.get(backfill).count("waiting") == 8
    assert not ledger.backfills.chunks.finish(mine, "done")


def test_whoever_leaves_a_cancelled_backfill_leaves_nothing_that_waits(ledger, laid_out):
    backfill = laid_out()
    ledger.backfills.chunks.take(backfill, owner=FAR)
    ledger.backfills.cancel(backfill)
    ledger.backfills.leave(backfill, owner=FAR)
    info = ledger.backfills.get(backfill)
    assert (info.count("cancelled"), info.count("running"), info.count("waiting")) == (8, 0, 0)


def test_a_cancelled_backfill_without_a_process_has_nothing_at_work(ledger, laid_out, clock):
    backfill = laid_out()
    ledger.backfills.chunks.take(backfill, owner=FAR)
    clock.advance(timedelta(seconds=61))
    ledger.backfills.cancel(backfill)
    info = ledger.backfills.get(backfill)
    assert (info.count("cancelled"), info.count("running")) == (8, 0)


def test_a_chunk_is_split_into_parts_that_keep_its_place(ledger, laid_out, day):
    backfill = laid_out()
    chunk = ledger.backfills.chunks.take(backfill, owner=FAR)
    assert ledger.backfills.chunks.split(chunk, [NewChunk(day(1), 1), NewChunk(day(2), 1)])
    assert not ledger.backfills.chunks.split(chunk, [NewChunk(day(1), 1)])
    taken = [ledger.backfills.chunks.take(backfill, owner=FAR).scope for _ in range(2)]
    assert taken == [day(1), day(2)]


def test_one_chunk_of_a_step_is_checked_alone_until_one_was(ledger, laid_out):
    backfill = laid_out(parallel=3)
    first, second = (ledger.backfills.chunks.take(backfill, owner=FAR, check=True) for _ in range(2))
    assert (first.spot_check, second.spot_check) == (True, True)
    # That one is done is not enough: it may have had nothing to compare
    ledger.backfills.chunks.finish(first, "done", rows=0)
    third = ledger.backfills.chunks.take(backfill, owner=FAR, check=True)
    assert third.spot_check is True
    ledger.backfills.chunks.finish(second, "done", rows=1, compared=True)
    assert ledger.backfills.chunks.take(backfill, owner=FAR, check=True).spot_check is False


def test_a_chunk_that_was_put_back_waits_for_its_time(ledger, laid_out, clock):
    backfill = laid_out(chunks=1)
    chunk = ledger.backfills.chunks.take(backfill, owner=FAR)
    ledger.backfills.chunks.put_back(chunk, wait=timedelta(seconds=5))
    assert ledger.backfills.chunks.take(backfill, owner=FAR) is None
    clock.advance(timedelta(seconds=5))
    assert ledger.backfills.chunks.take(backfill, owner=FAR).tries == 2


def test_in_order_nothing_overtakes_a_chunk_that_was_put_back_or_split(ledger, begin, clock, day):
    backfill = begin(parallel=3)
    ledger.backfills.chunks.lay_out(
        backfill, 1, "facts", [NewChunk(day(1, 4), 4), NewChunk(day(5), 1)], {"step": "facts"}
    )

    def take():
        return ledger.backfills.chunks.take(backfill, in_order=True, owner=FAR)

    first = take()
    assert take() is None
    ledger.backfills.chunks.put_back(first, wait=timedelta(seconds=5))
    assert take() is None
    clock.advance(timedelta(seconds=5))
    # Parts of a part come before the part after it
    ledger.backfills.chunks.split(take(), [NewChunk(day(1, 2), 2), NewChunk(day(3, 2), 2)])
    ledger.backfills.chunks.split(take(), [NewChunk(day(1), 1), NewChunk(day(2), 1)])
    order = []
    while chunk := take():
        order.append(chunk.scope)
        ledger.backfills.chunks.finish(chunk, "done")
    assert order == [day(1), day(2), day(3, 2), day(5)]


def test_waiting_chunks_are_cut_anew_unless_one_was_taken(ledger, laid_out, day):
    backfill = laid_out()
    waiting = ledger.backfills.chunks.list(backfill, states=("waiting",))
    assert ledger.backfills.chunks.recut(waiting[2:], [NewChunk(day(5, 4), 4)])
    ledger.backfills.chunks.take(backfill, owner=FAR)
    assert not ledger.backfills.chunks.recut(waiting[:2], [NewChunk(day(1, 4), 4)])
    assert [(chunk.scope, chunk.state) for chunk in ledger.backfills.chunks.list(backfill)] == [
        (day(1, 2), "running"),
        (day(3, 2), "waiting"),
        (day(5, 4), "waiting"),
    ]


def test_refused_partitions_of_a_chunk_count_as_failed(ledger, laid_out):
    backfill = laid_out()
    chunk = ledger.backfills.chunks.take(backfill, owner=FAR)
    ledger.backfills.chunks.finish(chunk, "done", rows=3, refused={"2026-01-02": "row count at least 1"})
    (tally,) = ledger.backfills.chunks.tallies(backfill)
    assert (tally.done, tally.failed, tally.waiting) == (1, 1, 6)


def test_a_restart_forgets_the_chunks(ledger, laid_out):
    backfill = laid_out()
    ledger.backfills.join(backfill, ttl=MINUTE, code={"facts": "v2"}, restart=True, owner=FAR)
    info = ledger.backfills.get(backfill)
    assert (info.step_index, info.plan, info.code, info.tallies) == (0, [], {"facts": "v2"}, ())


def test_with_other_code_the_step_at_work_is_cut_again_and_what_is_done_stays(ledger, laid_out, day):
    backfill = laid_out()
    ledger.backfills.chunks.finish(
        ledger.backfills.chunks.take(backfill, check=True, owner=FAR), "done", rows=5, compared=True
    )
    ledger.backfills.chunks.finish(ledger.backfills.chunks.take(backfill, owner=FAR), "failed", error="it rained")
    ledger.backfills.leave(backfill, interrupted=True, owner=FAR)
    # The same code, or other code of another step: the chunks stay as they are
    ledger.backfills.join(backfill, ttl=MINUTE, code={"facts": "v1", "sums": "v1"}, owner=FAR)
    ledger.backfills.join(backfill, ttl=MINUTE, code={"facts": "v1", "sums": "v2"}, owner=FAR)
    assert (ledger.backfills.get(backfill).step_index, len(ledger.backfills.chunks.list(backfill))) == (1, 4)
    ledger.backfills.join(backfill, ttl=MINUTE, code={"facts": "v2"}, owner=FAR)
    info = ledger.backfills.get(backfill)
    assert (info.step_index, info.plan, info.code) == (0, [], {"facts": "v2"})
    assert [(chunk.scope, chunk.state, chunk.spot_check) for chunk in ledger.backfills.chunks.list(backfill)] == [
        (day(1, 2), "done", False)
    ]
    # And one of the new chunks is checked again
    assert ledger.backfills.chunks.lay_out(backfill, 1, "facts", [NewChunk(day(3, 4), 4)], {"step": "facts"})
    chunk = ledger.backfills.chunks.take(backfill, check=True, owner=FAR)
    assert chunk.spot_check
    # What the other code made together stays, whatever is found out about the new
    ledger.backfills.chunks.go_one_by_one(
        chunk, lambda _: [NewChunk(day(3, 2), 2), NewChunk(day(5, 2), 2)], "alone it differs"
    )
    assert [(chunk.scope, chunk.state) for chunk in ledger.backfills.chunks.list(backfill)] == [
        (day(1, 2), "done"),
        (day(3, 2), "waiting"),
        (day(5, 2), "waiting"),
    ]


def test_with_other_code_a_step_that_has_ended_stays_ended(ledger, laid_out):
    backfill = laid_out(chunks=1)
    ledger.backfills.chunks.finish(ledger.backfills.chunks.take(backfill, owner=FAR), "done", rows=5)
    ledger.backfills.join(backfill, ttl=MINUTE, code={"facts": "v2"}, owner=FAR)
    assert ledger.backfills.get(backfill).step_index == 1


def test_nobody_restarts_or_changes_the_code_under_others_hands(ledger, laid_out, clock):
    backfill = laid_out()
    for how in ({"restart": True}, {"code": {"facts": "v2"}}):
        with pytest.raises(UsageError, match=r"work on backfill \w+: elsewhere \(pid 7\)"):
            ledger.backfills.join(backfill, ttl=MINUTE, owner=FARTHER, **how)
        assert (ledger.backfills.get(backfill).code, len(ledger.backfills.chunks.list(backfill))) == (
            {"facts": "v1"},
            4,
        )
    ledger.backfills.join(backfill, ttl=MINUTE, code={"facts": "v1"}, owner=FARTHER)
    # Once they have gone it is possible
    ledger.backfills.leave(backfill, owner=FAR)
    ledger.backfills.join(backfill, ttl=MINUTE, owner=FARTHER, restart=True)
    assert ledger.backfills.chunks.list(backfill) == []


def test_an_unknown_or_ambiguous_id_is_refused(ledger, begin, clock):
    one = begin()
    clock.advance(timedelta(milliseconds=5))
    two = begin(FARTHER, first=20)
    assert ledger.backfills.get(one.upper()).id == one
    with pytest.raises(UsageError, match="no backfill begins with 'zz'"):
        ledger.backfills.get("zz")
    with pytest.raises(UsageError, match="several backfills begin with"):
        ledger.backfills.get(one[:6])
    assert [info.id for info in ledger.backfills.list()] == [two, one]


def test_at_least_one_chunk_runs_at_a_time(ledger, begin):
    with pytest.raises(UsageError, match="must be 1 or more"):
        ledger.backfills.set_parallel(begin(), 0)


def test_a_prune_takes_old_backfills_with_their_chunks_and_no_others(ledger, laid_out, clock):
    old = laid_out()
    ledger.backfills.finish(old, "done")
    clock.advance(timedelta(days=10))
    new = laid_out()
    report = ledger.admin.prune(timedelta(days=5))
    assert report.backfills == 1
    assert [info.id for info in ledger.backfills.list()] == [new]
    assert ledger.backfills.chunks.list(old) == []
    assert len(ledger.backfills.chunks.list(new)) == 4


def test_calls_of_a_source_are_spread_over_all_who_share_the_ledger(ledger, clock):
    apart = timedelta(milliseconds=200)
    assert [round(ledger.pacing.next_call("shop.orders", apart), 3) for _ in range(3)] == [0.0, 0.2, 0.4]
    assert ledger.pacing.next_call("shop.people", apart) == 0.0
    # Time that nobody used is not saved up
    clock.advance(timedelta(seconds=60))
    assert [round(ledger.pacing.next_call("shop.orders", apart), 3) for _ in range(2)] == [0.0, 0.2]
