from __future__ import annotations

import json
from datetime import timedelta

import pytest
import sqlalchemy as sa

from twice.errors import LedgerError, UsageError
from twice.ledger import InputRecord, Owner
from twice.ledger.db.schema import environments
from twice.model.scopes import Scope

MINUTE = timedelta(minutes=1)
T = "lake.core.fct_orders"


def test_a_run_is_remembered_with_all_that_belongs_to_it(ledger, clock, day, made, work):
    run = ledger.runs.start(
        "shop", day(1, tenant="acme"), command="twice run shop", tags={"project": "q2"}, owner=Owner("h", 7)
    )
    clock.advance(MINUTE / 2)
    ledger.runs.finish(run, "failed", "a gate found something")
    ledger.runs.finish(run, "done")  # the first end counts
    found = ledger.runs.get(run)
    assert (found.pipeline, found.scope, found.command) == ("shop", day(1, tenant="acme"), "twice run shop")
    assert (found.tags, found.owner) == ({"project": "q2"}, Owner("h", 7))
    assert (found.status, found.error) == ("failed", "a gate found something")
    assert found.finished_at - found.started_at == MINUTE / 2
    assert json.loads(json.dumps(found.to_json()))["scope"] == day(1, tenant="acme").to_json()


def test_what_runs_are_made_with_is_stored_once_and_without_passwords(ledger, day):
    made_with = {"commit": "c0ffee", "dirty": True, "settings": {"a": "postgresql://u:hunter2@h/d"}}
    one, other = (ledger.runs.start("shop", day(1), environment=made_with) for _ in range(2))
    alone = ledger.runs.start("shop", day(1))
    found = ledger.runs.get(one).to_json()["environment"]
    assert found == {**made_with, "settings": {"a": "postgresql://u:***@h/d"}} == ledger.runs.get(other).environment
    assert ledger.runs.get(alone).environment == {}
    with ledger.database.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(environments)) == 1


def test_an_attempt_is_remembered_with_its_claim_and_its_inputs(ledger, day):
    run = ledger.runs.start("shop", day(1))
    first = ledger.attempts.start(run, "revenue", T, 1, day(1), code="c1")
    ledger.attempts.finish(first, "failed", error="boom", transient=True, details={"seconds": 1.5})
    second = ledger.attempts.start(run, "revenue", T, 2, day(1), code="c1")
    claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE, run=run)
    pinned = InputRecord("orders", "lake.raw", "window", "7", {"2026-01-01": "abc"})
    ledger.leases.bind(second, claim, base_version="98", inputs=[pinned])
    a, b = ledger.runs.get(run).attempts
    assert (a.number, a.status, a.error, a.transient, a.details) == (
        1,
        "failed",
        "boom",
        True,
        {"seconds": 1.5},
    )
    assert (b.number, b.status, b.token, b.base_version, b.inputs) == (
        2,
        "running",
        claim.token,
        "98",
        (pinned,),
    )
    assert json.loads(json.dumps(b.to_json()))["inputs"][0]["partitions"] == {"2026-01-01": "abc"}


def test_scopes_that_failed_inside_an_attempt_are_attempts_of_their_own_and_newer(ledger, day):
    run = ledger.runs.start("shop", day(1))
    ledger.attempts.start(run, "revenue", T, 2, day(1), code="c1")
    ledger.attempts.add_failures(run, "revenue", T, 2, {day(1): "a gate", day(2, tenant="acme"): "a key"}, code="c1")
    ledger.attempts.add_failures(run, "revenue", T, 2, {}, code="c1")
    _, first, second = ledger.runs.get(run).attempts
    assert (first.status, first.error, first.number, first.scope) == ("failed", "a gate", 2, day(1))
    assert (second.scope, second.error, second.inputs) == (day(2, tenant="acme"), "a key", ())
    assert [last.error for last in ledger.attempts.newest("shop", "revenue", day(1).window)] == ["a gate"]
    with pytest.raises(LedgerError):
        ledger.attempts.add_failures("0", "revenue", T, 1, {day(1): "x"}, code="c1")


def test_ids_sort_by_time_and_short_forms_find_them(ledger, clock):
    made = []
    for _ in range(5):
        made.append(ledger.runs.start("shop", Scope(None)))
        clock.advance(timedelta(hours=9))
    assert made == sorted(made)
    assert [run.id for run in ledger.runs.list()] == made[::-1]
    assert [run.id for run in ledger.runs.list(limit=2)] == made[:-3:-1]
    assert ledger.runs.get(made[2]).id == made[2]
    assert ledger.runs.get(made[2][:9].upper()).id == made[2]
    with pytest.raises(UsageError, match="several runs begin with") as several:
        ledger.runs.get(made[0][:2])
    assert made[0] in str(several.value)
    for unknown in ("zzzz", "", "%", "_", "0' OR 1=1"):
        with pytest.raises(UsageError):
            ledger.runs.get(unknown)


def test_runs_of_one_pipeline(ledger):
    ledger.runs.start("shop", Scope(None))
    other = ledger.runs.start("bank", Scope(None))
    assert [run.id for run in ledger.runs.list(pipeline="bank")] == [other]


def test_a_dead_run_does_not_look_alive_forever(ledger, clock, day, made, work):
    run, _, claim = work(T, [made(T, day(1))])
    clock.advance(2 * MINUTE)
    ledger.leases.renew(claim, 5 * MINUTE)
    clock.advance(4 * MINUTE)
    assert (ledger.runs.get(run).status, ledger.runs.get(run).attempts[0].status) == ("running", "running")
    clock.advance(2 * MINUTE)
    assert (ledger.runs.get(run).status, ledger.runs.get(run).attempts[0].status) == ("lost", "lost")
    assert [attempt.status for attempt in ledger.attempts.list("shop")] == ["lost"]
    # It was only asleep, and nobody took its place.
    ledger.leases.renew(claim, MINUTE)
    assert (ledger.runs.get(run).status, ledger.runs.get(run).attempts[0].status) == ("running", "running")


def test_a_run_that_died_before_its_first_claim_is_lost_too(ledger, clock, day):
    run = ledger.runs.start("shop", day(1))
    ledger.attempts.start(run, "revenue", T, 1, day(1), code="c")
    assert ledger.runs.get(run).attempts[0].status == "running"
    clock.advance(2 * MINUTE)
    assert (ledger.runs.get(run).status, ledger.runs.get(run).attempts[0].status) == ("lost", "lost")


def test_a_run_that_waits_is_alive(ledger, clock, day):
    holder = ledger.leases.claim(T, [day(1)], ttl=60 * MINUTE)
    run = ledger.runs.start("shop", day(1))
    for _ in range(5):
        clock.advance(0.9 * MINUTE)
        with pytest.raises(Exception, match="is held by"):
            ledger.leases.claim(T, [day(1)], ttl=MINUTE, run=run)
    assert ledger.runs.get(run).status == "running"
    clock.advance(0.9 * MINUTE)
    ledger.runs.beat(run)
    clock.advance(0.9 * MINUTE)
    assert ledger.runs.get(run).status == "running"
    ledger.runs.finish(run, "held")
    clock.advance(60 * MINUTE)
    assert ledger.runs.get(run).status == "held"
    ledger.leases.release(holder)


def test_attempts_of_a_window_newest_first(ledger, day):
    run = ledger.runs.start("shop", day(1, days=3))
    ids = [ledger.attempts.start(run, "s", T, 1, day(number), code="c") for number in (1, 2, 3)]
    whole = ledger.attempts.start(run, "merge", "lake.dim", 1, Scope(None), code="c")
    assert [attempt.id for attempt in ledger.attempts.list("shop")] == [whole, *ids[::-1]]
    assert [attempt.id for attempt in ledger.attempts.list("shop", day(2).window)] == [whole, ids[1]]
    assert ledger.attempts.list("bank") == []


def test_the_last_attempt_of_each_scope(ledger, day):
    run = ledger.runs.start("shop", day(1, days=3))
    for number in (1, 2, 1):
        ledger.attempts.finish(ledger.attempts.start(run, "s", T, 1, day(number), code="c"), "failed")
    last = ledger.attempts.start(run, "s", T, 2, day(1), code="c")
    ledger.attempts.start(run, "other", T, 1, day(1), code="c")
    found = ledger.attempts.newest("shop", "s", day(1, days=3).window)
    assert [(attempt.start, attempt.status) for attempt in found] == [
        ("2026-01-02T00:00:00", "failed"),
        ("2026-01-01T00:00:00", "running"),
    ]
    assert found[1].id == last


def test_words_that_are_no_end_and_things_that_are_not_there(ledger, day):
    run = ledger.runs.start("shop", day(1))
    attempt = ledger.attempts.start(run, "s", T, 1, day(1), code="c")
    with pytest.raises(UsageError, match="done"):
        ledger.runs.finish(run, "splendid")
    with pytest.raises(UsageError, match="published"):
        ledger.attempts.finish(attempt, "splendid")
    with pytest.raises(UsageError, match="JSON only"):
        ledger.attempts.finish(attempt, "failed", details={"x": object()})
    for call in (
        lambda: ledger.runs.finish("nope", "done"),
        lambda: ledger.attempts.start("nope", "s", T, 1, day(1), code="c"),
        lambda: ledger.attempts.finish(99, "failed"),
    ):
        with pytest.raises(LedgerError, match="is not in the ledger"):
            call()
    assert ledger.runs.get(run).attempts[0].status == "running"


def test_odd_texts_are_stored(ledger, day):
    odd = "quote ' \" \\ ; DROP TABLE runs; \n \u2603 \U0001f600 .. \x00 \ud800"
    scope = day(1, **{"te nant.'": "o'brien \u2603 .. \\"})
    run = ledger.runs.start("sh'op", scope, command=odd, tags={"é'": "\n"})
    ledger.runs.finish(run, "failed", error=odd)
    found = ledger.runs.get(run)
    assert found.scope == scope
    assert found.tags == {"é'": "\n"}
    assert "DROP TABLE runs; \n \u2603 \U0001f600" in found.error
