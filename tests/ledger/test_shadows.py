"""Shadows in the ledger: from building to swapped or dropped, and what others published meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from twice.errors import ScopeHeld, UsageError
from twice.ledger import Owner

MINUTE = timedelta(minutes=1)
T, UNSEEN = "lake.core.fct_orders", "lake.core.fct_orders@b1"
TABLES = {T: UNSEEN, "lake.core.sums": "lake.core.sums@b1"}


@pytest.fixture
def backfill(ledger, day):
    found = ledger.backfills.start(
        "shop", day(1, 10), list(TABLES.values()), request={}, code={}, parallel=1, ttl=MINUTE, owner=Owner("far", 7)
    )
    ledger.backfills.shadows.begin(found, TABLES)
    return found


@pytest.fixture
def publish(ledger, work):
    def publish(*new, table=T):
        _, attempt, claim = work(table, new)
        ledger.outputs.record(claim, attempt, new)

    return publish


def test_a_swap_goes_table_by_table_and_can_be_taken_up_again(ledger, backfill):
    ledger.backfills.leave(backfill, owner=Owner("far", 7))
    assert ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE).state == "swapping"
    assert ledger.backfills.shadows.table_swapped(backfill, T, "7").state == "swapping"
    assert ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE).swapped == {T: "7"}
    assert ledger.backfills.get(backfill).shadow.swapped == {T: "7"}
    assert ledger.backfills.shadows.table_swapped(backfill, "lake.core.sums", "8").state == "swapped"
    with pytest.raises(UsageError, match="is already swapped"):
        ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)
    ledger.backfills.shadows.end(backfill)
    assert ledger.backfills.shadows.find(backfill).state == "swapped"


def test_a_dropped_shadow_takes_what_it_held_along(ledger, backfill, day, made, publish):
    publish(made(T, day(1)))
    publish(made(UNSEEN, day(1)), table=UNSEEN)
    with pytest.raises(UsageError, match="at work on far"):
        ledger.backfills.shadows.begin_drop(backfill)
    ledger.backfills.leave(backfill, owner=Owner("far", 7))
    assert ledger.backfills.shadows.begin_drop(backfill).state == "dropping"
    assert ledger.backfills.get(backfill).status == "cancelled"
    with pytest.raises(UsageError, match="nothing can be added to it"):
        ledger.backfills.join(backfill, ttl=MINUTE)
    ledger.backfills.shadows.end(backfill)
    assert ledger.backfills.shadows.find(backfill).state == "dropped"
    assert (len(ledger.outputs.list(T)), ledger.outputs.list(UNSEEN)) == (1, [])
    with pytest.raises(UsageError, match="is already dropped"):
        ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)


def test_when_a_shadow_began_does_not_change_when_it_goes_on(ledger, backfill, clock):
    begun = ledger.backfills.shadows.find(backfill).begun_at
    clock.advance(MINUTE)
    ledger.backfills.shadows.begin(backfill, TABLES)
    assert ledger.backfills.shadows.find(backfill).begun_at == begun


def test_only_other_content_counts_as_changed_since(ledger, day, made, publish, clock):
    publish(made(T, day(1), rows=1), made(T, day(2), rows=2), made(T, day(3), rows=3))
    moment = clock.now()
    clock.advance(MINUTE)
    publish(made(T, day(1), rows=1))  # run again: the same rows
    publish(made(T, day(2), rows=22), made(T, day(4), rows=4))
    clock.advance(MINUTE)
    publish(made(T, day(2), rows=23))
    found = ledger.outputs.changed_since(T, day(1, 10).window, moment)
    assert [(output.scope, output.rows) for output in found] == [(day(2), 23), (day(4), 4)]
    assert ledger.outputs.changed_since(T, day(3).window, moment) == []


def test_a_shadow_that_nobody_ended_is_not_forgotten(ledger, backfill, clock):
    ledger.backfills.finish(backfill, "done")
    ledger.backfills.leave(backfill, owner=Owner("far", 7))
    clock.advance(timedelta(days=400))
    ledger.admin.prune(keep=timedelta(days=30))
    assert [info.id for info in ledger.backfills.list()] == [backfill]
    ledger.backfills.shadows.begin_drop(backfill)
    ledger.backfills.shadows.end(backfill)
    ledger.admin.prune(keep=timedelta(days=30))
    assert ledger.backfills.list() == []


def test_a_backfill_on_the_tables_themselves_has_no_shadow(ledger, day):
    found = ledger.backfills.start("shop", day(1), [T], request={}, code={}, parallel=1, ttl=MINUTE)
    assert ledger.backfills.shadows.find(found) is None
    with pytest.raises(UsageError, match="has no shadow"):
        ledger.backfills.shadows.begin_swap(found, ttl=MINUTE)


def test_a_shadow_begins_with_what_is_recorded_around_its_range(ledger, backfill, day, made):
    ledger.backfills.shadows.inherit(backfill, T, [made(T, day(20), rows=5)], {"2026-01-03": "abc"})
    (found,) = ledger.outputs.list(UNSEEN)
    assert (found.table, found.scope, found.rows, found.token, found.run) == (UNSEEN, day(20), 5, 0, None)
    assert ledger.outputs.list(T) == []
    assert ledger.backfills.shadows.find(backfill).odd == {T: {"2026-01-03": "abc"}}


def test_a_swap_waits_for_another_backfill_that_works_on_the_tables(ledger, backfill, day):
    other = ledger.backfills.start(
        "shop", day(5), [T], request={}, code={}, parallel=1, ttl=MINUTE, owner=Owner("far", 9)
    )
    with pytest.raises(ScopeHeld, match=f"overlaps with backfill {other}"):
        ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)
    ledger.backfills.leave(other, owner=Owner("far", 9), interrupted=True)
    assert ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE).state == "swapping"


def test_a_swap_keeps_other_backfills_and_other_swaps_away_while_it_is_heard_of(ledger, backfill, day, clock):
    ledger.backfills.finish(backfill, "done")
    ledger.backfills.leave(backfill, owner=Owner("far", 7))
    ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE, owner=Owner("far", 8))

    def other(table):
        return ledger.backfills.start("shop", day(5), [table], request={}, code={}, parallel=1, ttl=MINUTE)

    with pytest.raises(ScopeHeld, match=f"overlaps with backfill {backfill} .* being swapped in on far"):
        other(T)
    with pytest.raises(ScopeHeld, match="being swapped in on far"):
        ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)
    with pytest.raises(UsageError, match="at work on far"):
        ledger.backfills.shadows.begin_drop(backfill)
    assert ledger.backfills.get(backfill).workers == (Owner("far", 8),)
    clock.advance(2 * MINUTE)
    ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)
    ledger.backfills.shadows.leave_swap(backfill)
    other(T)


def test_a_swap_that_showed_readers_nothing_leaves_the_shadow_as_it_was(ledger, backfill):
    ledger.backfills.leave(backfill, owner=Owner("far", 7))
    ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)
    ledger.backfills.shadows.leave_swap(backfill)
    assert ledger.backfills.shadows.find(backfill).state == "building"
    ledger.backfills.shadows.begin_swap(backfill, ttl=MINUTE)
    ledger.backfills.shadows.show(backfill)
    ledger.backfills.shadows.leave_swap(backfill)
    assert ledger.backfills.shadows.find(backfill).state == "swapping"
    assert ledger.backfills.get(backfill).workers == ()
