"""A Postgres ledger behind pgbouncer in transaction mode: every transaction may run on another connection."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest

from tests.ledger import hammer
from twice.errors import LeaseLost, LedgerBusy, ScopeHeld
from twice.ledger import open_ledger
from twice.model.scopes import Scope

MINUTE = timedelta(minutes=1)
T = "lake.core.fct_orders"


@pytest.fixture
def kind():
    return "postgres"


@pytest.fixture
def new_url(pgbouncer, schema_url):
    return lambda: pgbouncer.through(schema_url())


def test_a_whole_life_goes_through_the_pooler(ledger, clock, day, made, work):
    run, attempt, claim = work(T, [made(T, day(number)) for number in range(1, 40)])
    assert ledger.leases.renew(claim, MINUTE)
    assert ledger.leases.holds(claim)
    with pytest.raises(ScopeHeld):
        ledger.leases.claim(T, [day(2)], ttl=MINUTE)
    ledger.outputs.record(claim, attempt, [made(T, day(number)) for number in range(1, 40)])
    ledger.runs.finish(run, "done")
    assert len(ledger.outputs.list(T)) == 39
    assert ledger.runs.get(run).attempts[0].status == "published"
    clock.advance(2 * MINUTE)
    lost = work(T, [made(T, day(1), rows=7)])
    clock.advance(2 * MINUTE)
    (left,) = ledger.leases.claim(T, [day(1)], ttl=MINUTE).abandoned
    ledger.leases.settle(left, landed=True)
    with pytest.raises(LeaseLost):
        ledger.outputs.record(lost[2], lost[1], [made(T, day(1))])
    assert ledger.outputs.find(T, day(1)).rows == 7
    assert ledger.admin.prune(timedelta(0)).runs == 2


def test_transactions_of_many_threads_mix_on_few_connections(new_url, day):
    ledger = open_ledger(new_url())
    problems = []

    def live(number):
        try:
            for _ in range(5):
                run = ledger.runs.start("shop", day(number))
                attempt = ledger.attempts.start(run, "s", T, 1, day(number), code="c")
                claim = ledger.leases.claim(T, [day(number)], ttl=MINUTE, run=run)
                ledger.leases.bind(attempt, claim, base_version=None, inputs=[])
                assert ledger.leases.renew(claim, MINUTE)
                ledger.outputs.record(claim, attempt, [])
                ledger.runs.finish(run, "done")
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert {run.status for run in ledger.runs.list(limit=99)} == {"done"}
    assert ledger.leases.claim(T, [day(1)], ttl=MINUTE).token == 41


def test_nothing_stays_on_a_connection_for_the_next_user(new_url, pgbouncer, postgres):
    url = new_url()
    open_ledger(url).leases.claim(T, [Scope(None)], ttl=MINUTE)
    with psycopg.connect(url.split("?", maxsplit=1)[0], autocommit=True) as other:
        for setting, usual in {
            "search_path": '"$user", public',
            "lock_timeout": "0",
            "idle_in_transaction_session_timeout": "0",
            "default_transaction_isolation": "read committed",
        }.items():
            assert other.execute(f"show {setting}").fetchone() == (usual,)
        assert other.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
        assert other.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone() == (0,)


@pytest.mark.crash
def test_a_pooler_that_dies_is_a_transient_error_and_nothing_is_lost(postgres, schema_url, day):
    from tests.support import servers

    with servers.running(lambda: servers.Bouncer(postgres)) as pooler:
        direct = schema_url()
        ledger = open_ledger(pooler.through(direct))
        claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
        pooler.stop()
        with pytest.raises(LedgerBusy):
            ledger.leases.renew(claim, MINUTE)
        assert open_ledger(direct).leases.holds(claim)
        pooler.start()
        assert ledger.leases.renew(claim, MINUTE)


@pytest.mark.crash
def test_eight_processes_behind_a_pooler_never_hold_a_scope_twice(new_url, quick_dir):
    url = new_url()
    events = hammer.hammer(url, quick_dir, claims=40)
    hammer.check(events, open_ledger(url).leases.list())
