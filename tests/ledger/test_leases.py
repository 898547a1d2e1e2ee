from __future__ import annotations

from datetime import timedelta

import pytest

from twice.errors import LeaseLost, ScopeHeld, UsageError
from twice.ledger import Owner, open_ledger
from twice.model.scopes import Scope

MINUTE = timedelta(minutes=1)
T = "lake.core.fct_orders"


def test_a_held_scope_names_its_holder_and_what_to_do(ledger, day):
    run = ledger.runs.start("shop", day(1))
    ledger.leases.claim(T, [day(1)], ttl=MINUTE, run=run, owner=Owner("web1", 4242))
    with pytest.raises(ScopeHeld) as held:
        ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    text = str(held.value)
    for part in (T, "2026-01-01/2026-01-02", run, "web1", "4242", "10:00:00Z", "10:01:00Z", "--wait"):
        assert part in text
    assert held.value.exit_code == 4


def test_disjoint_days_tables_and_tenants_do_not_exclude_each_other(ledger, day):
    ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    ledger.leases.claim(T, [day(2, tenant="acme")], ttl=MINUTE)
    ledger.leases.claim(T, [day(2, tenant="bolt")], ttl=MINUTE)
    ledger.leases.claim("lake.core.other", [day(1)], ttl=MINUTE)
    assert [lease.token for lease in ledger.leases.list() if lease.table == T] == [1, 2, 3]


@pytest.mark.parametrize("holder", ["all tenants", "one tenant", "whole table"])
def test_an_open_dimension_or_window_excludes_everything_in_it(ledger, day, holder):
    first, second = {
        "all tenants": (day(1), day(1, tenant="acme")),
        "one tenant": (day(1, tenant="acme"), day(1)),
        "whole table": (Scope(None), day(9)),
    }[holder]
    ledger.leases.claim(T, [first], ttl=MINUTE)
    with pytest.raises(ScopeHeld):
        ledger.leases.claim(T, [second], ttl=MINUTE)


def test_all_scopes_of_a_claim_or_none(ledger, day):
    ledger.leases.claim(T, [day(3)], ttl=MINUTE)
    with pytest.raises(ScopeHeld):
        ledger.leases.claim(T, [day(1), day(2), day(3)], ttl=MINUTE)
    assert ledger.leases.claim(T, [day(1), day(2)], ttl=MINUTE).token == 2


def test_a_failed_claim_takes_no_expired_lease_over(ledger, clock, day):
    expired = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    clock.advance(MINUTE)
    ledger.leases.claim(T, [day(2)], ttl=MINUTE)
    with pytest.raises(ScopeHeld):
        ledger.leases.claim(T, [day(1), day(2)], ttl=MINUTE)
    assert ledger.leases.holds(expired)
    assert ledger.leases.renew(expired, MINUTE)


def test_an_expired_lease_is_taken_and_offered_until_settled(ledger, clock, day, made, work):
    run, attempt, first = work(T, [made(T, day(1))])
    clock.advance(MINUTE)
    second = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    (left,) = second.abandoned
    assert (left.token, left.run, left.attempt, left.scopes) == (first.token, run, attempt, (day(1),))
    assert not ledger.leases.holds(first)
    assert not ledger.leases.renew(first, MINUTE)
    # The second one dies too, before it settled anything.
    clock.advance(MINUTE)
    third = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    assert [item.token for item in third.abandoned] == [first.token, second.token]
    for item in third.abandoned:
        ledger.leases.settle(item, landed=False)
        ledger.leases.settle(item, landed=True)  # the first word counts
    ledger.leases.release(third)
    assert ledger.leases.list() == []
    assert ledger.outputs.find(T, day(1)) is None
    assert ledger.leases.claim(T, [day(1)], ttl=MINUTE).abandoned == ()
    assert ledger.runs.get(run).attempts[0].status == "lost"


def test_a_loser_that_wakes_up_records_nothing(ledger, clock, day, made, work):
    _, attempt, first = work(T, [made(T, day(1), rows=1)])
    clock.advance(MINUTE)
    winner = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    ledger.leases.release(winner)  # it had nothing to change
    for late in (ledger.outputs.record, ledger.outputs.prepare):
        with pytest.raises(LeaseLost, match="taken"):
            late(first, attempt, [made(T, day(1))])
    with pytest.raises(LeaseLost):
        ledger.leases.bind(attempt, first, base_version=None, inputs=[])
    ledger.leases.release(first)
    assert ledger.outputs.find(T, day(1)) is None


def test_a_successor_adopts_what_landed(ledger, clock, day, made, work):
    run, attempt, _ = work(T, [made(T, day(1), rows=5, version=None), made(T, day(2), rows=7, version=None)])
    clock.advance(MINUTE)
    # The successor owns only one of the days; the claim it recovers is settled as a whole.
    (left,) = ledger.leases.claim(T, [day(2)], ttl=MINUTE).abandoned
    ledger.leases.settle(left, landed=True, version="55")
    assert [(item.rows, item.version, item.run) for item in ledger.outputs.list(T)] == [
        (5, "55", run),
        (7, "55", run),
    ]
    info = ledger.runs.get(run).attempts[0]
    assert (info.status, info.rows, info.version, info.details) == ("published", 12, "55", {"adopted": True})
    # The dead process was only asleep: its own last word does not undo the adoption.
    ledger.attempts.finish(attempt, "lost", error="lease lost")
    assert ledger.runs.get(run).attempts[0].status == "published"


def test_settling_late_does_not_undo_what_was_published_since(ledger, clock, day, made, work):
    work(T, [made(T, day(1), rows=1), made(T, day(2), rows=2)])
    clock.advance(MINUTE)
    (left,) = ledger.leases.claim(T, [day(1)], ttl=MINUTE).abandoned
    _, attempt, other = work(T, [made(T, day(2), rows=22)])
    ledger.outputs.record(other, attempt, [made(T, day(2), rows=22)])
    ledger.leases.settle(left, landed=True)
    assert [output.rows for output in ledger.outputs.list(T)] == [1, 22]


def test_an_expired_lease_that_nobody_took_is_still_good(ledger, clock, day, made, work):
    _, attempt, claim = work(T, [made(T, day(1))])
    clock.advance(10 * MINUTE)
    assert [lease.state for lease in ledger.leases.list()] == ["expired"]
    assert ledger.leases.holds(claim)
    ledger.outputs.record(claim, attempt, [made(T, day(1))])
    assert ledger.leases.list() == []


def test_renewal_keeps_others_out(ledger, clock, day):
    claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    for _ in range(5):
        clock.advance(0.9 * MINUTE)
        assert ledger.leases.renew(claim, MINUTE)
        with pytest.raises(ScopeHeld):
            ledger.leases.claim(T, [day(1)], ttl=MINUTE)


@pytest.mark.parametrize("step", ["bind", "prepare"])
def test_what_an_attempt_saves_under_its_claim_renews_the_lease(ledger, clock, day, made, work, step):
    _, attempt, claim = work(T, [made(T, day(1))])
    clock.advance(0.9 * claim.ttl)
    if step == "bind":
        ledger.leases.bind(attempt, claim, base_version="1", inputs=())
    else:
        ledger.outputs.prepare(claim, attempt, [made(T, day(1))])
    clock.advance(0.9 * claim.ttl)
    with pytest.raises(ScopeHeld):
        ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    ledger.leases.take_over(T, claim.token)
    with pytest.raises(LeaseLost):
        ledger.leases.bind(attempt, claim, base_version="1", inputs=())
    with pytest.raises(LeaseLost):
        ledger.outputs.prepare(claim, attempt, [made(T, day(1))])


def test_take_over_fences_a_live_lease_at_once(ledger, day, made, work):
    run, attempt, claim = work(T, [made(T, day(1))])
    left = ledger.leases.take_over(T, claim.token)
    assert ledger.leases.take_over(T, claim.token) == left
    assert [lease.state for lease in ledger.leases.list()] == ["taken"]
    assert ledger.runs.get(run).attempts[0].status == "lost"
    with pytest.raises(LeaseLost):
        ledger.outputs.record(claim, attempt, [made(T, day(1))])
    assert ledger.leases.claim(T, [day(1)], ttl=MINUTE).abandoned == (left,)
    with pytest.raises(UsageError, match="no such lease"):
        ledger.leases.take_over(T, 99)
    ledger.leases.settle(left, landed=False)
    with pytest.raises(UsageError, match="settled"):
        ledger.leases.take_over(T, claim.token)


def test_tokens_grow_per_table_and_start_above_the_floor(ledger, day):
    for expected in (1, 2):
        claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
        ledger.leases.release(claim)
        assert claim.token == expected
    assert ledger.leases.claim(T, [day(1)], ttl=MINUTE, floor=41).token == 42
    assert ledger.leases.claim(T, [day(2)], ttl=MINUTE, floor=7).token == 43
    assert ledger.leases.claim("lake.core.other", [day(1)], ttl=MINUTE).token == 1


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_restored_backup_does_not_let_two_owners_share_a_token(ledger, clock, day, made, tmp_path):
    ledger.admin.backup(tmp_path / "backup.db")
    lost = ledger.leases.claim(T, [day(1)], ttl=MINUTE, owner=Owner("a", 1))
    restored = open_ledger(f"sqlite:///{tmp_path}/backup.db", clock=clock)
    # The table never saw the lost claim's token, so it is given again, to another process.
    again = restored.leases.claim(T, [day(1)], ttl=MINUTE, owner=Owner("b", 2))
    assert again.token == lost.token
    assert not restored.leases.renew(lost, MINUTE)
    with pytest.raises(LeaseLost):
        restored.outputs.record(lost, 1, [made(T, day(1))])
    restored.leases.release(again)
    # What the table has seen, it tells: the floor.
    assert restored.leases.claim(T, [day(1)], ttl=MINUTE, floor=17).token == 18


@pytest.mark.parametrize(("scopes", "ttl"), [([], MINUTE), ([Scope(None)], timedelta(0))])
def test_a_claim_of_nothing_or_for_no_time_is_refused(ledger, scopes, ttl):
    with pytest.raises(UsageError):
        ledger.leases.claim(T, scopes, ttl=ttl)


def test_looking_for_overlaps_reads_no_closed_claims(sqlite_ledger):
    with sqlite_ledger.database.read() as connection:
        plan = connection.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT * FROM claims WHERE table_name = 'x' AND state IN ('live', 'taken')"
        ).all()
    assert "claims_by_state (state=? AND table_name=?)" in str(plan)


def test_leases_as_json(ledger, day):
    ledger.leases.claim(T, [day(1, tenant="o'brien")], ttl=MINUTE, owner=Owner("h", 1))
    (lease,) = ledger.leases.list()
    assert lease.to_json()["scopes"] == [day(1, tenant="o'brien").to_json()]
    assert lease.to_json()["expires_at"] == "2026-04-25T10:01:00+00:00"
