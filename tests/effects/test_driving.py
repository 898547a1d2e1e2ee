"""What is decided about an effect, call by call: doubt is never forgotten, nothing owed is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.project import FULL
from twice import hours, minutes
from twice.effects import KeyUsed, NotSent, OutcomeUnknown, Rejected, Retry
from twice.effects.calls import call
from twice.effects.driving import Due, Paid, drive, fingerprint_of
from twice.effects.policies import Policy
from twice.errors import LedgerBusy
from twice.ledger import Outcome, Subject, Wanted, open_ledger
from twice.ledger.db.schema import effects

RETRY = Retry(valid_for=hours(24), then="ask")


class Receiver:
    """Answers in the order of a script: an exception is raised, anything else is the answer."""

    def __init__(self, *script: object) -> None:
        self.script, self.keys = list(script), []

    def send(self, key: str) -> object:
        self.keys.append(key)
        answer = self.script.pop(0)
        if isinstance(answer, BaseException):
            answer.wait = 0.0
            raise answer
        return answer


@pytest.fixture
def pay(ledger) -> Callable[..., Paid]:
    def once(receiver: Receiver, payload: str = "1", correct: Any = None, **policy: Any) -> Paid:
        wanted = Wanted(Subject("shop", "post", business_key="7"), fingerprint_of(payload), payload)
        how = Policy(**({"on_unknown": RETRY, "attempts": 1} | policy))
        (paid,) = drive(ledger, [Due(wanted, receiver.send, correct)], how)
        return paid

    return once


@pytest.mark.parametrize("then", [NotSent("closed"), Rejected("401")])
def test_a_call_that_may_have_been_made_is_not_undone_by_a_later_refusal(pay, clock, then):
    assert pay(Receiver(TimeoutError())).record.state == "unknown"
    assert pay(Receiver(then)).record.state == "unknown"
    # After the key's life nothing is sent blindly
    clock.advance(timedelta(days=3))
    late = Receiver()
    assert pay(late).why == "ask"
    assert late.keys == []


def test_the_same_within_one_run(pay):
    receiver = Receiver(OutcomeUnknown("500"), NotSent("closed"))
    assert pay(receiver, attempts=2).record.state == "unknown"
    assert len(set(receiver.keys)) == 1


def test_a_mismatch_settles_only_what_was_unknown(pay):
    assert pay(Receiver(KeyUsed("422"))).record.state == "dead"  # the first call ever: nothing was made
    pay(Receiver(TimeoutError()), mode="send")
    assert pay(Receiver(KeyUsed("422"))).record.state == "confirmed"


def test_what_a_repeated_call_sent_is_what_is_recorded(pay):
    pay(Receiver(TimeoutError()), payload="1", on_change="resend")
    pay(Receiver("ok"), payload="2", on_change="resend")
    again = Receiver()
    assert pay(again, payload="2", on_change="resend").why == "confirmed"
    assert again.keys == []


def test_a_correction_that_failed_is_made_again_and_not_the_ordinary_call(pay):
    corrections = []

    def correct(key: str, old: object, answer: object) -> object:
        corrections.append((old, answer))
        if len(corrections) == 1:
            raise NotSent("closed")
        return "corrected"

    pay(Receiver("ok"), payload="1")
    change = {"payload": "2", "correct": correct, "on_change": correct, "attempts": 2}
    assert pay(Receiver(), **change | {"attempts": 1}).record.state == "dead"
    assert pay(Receiver(), **change, mode="send").record.response == "corrected"
    assert corrections == [(1, "ok"), (1, "ok")]


def test_resolved_as_not_sent_is_sent_by_the_next_run(pay, ledger):
    for _ in range(3):
        pay(Receiver(TimeoutError()))
    ledger.effects.resolve(ledger.effects.list()[0].key, "failed", "not there")
    assert pay(Receiver("ok")).record.response == "ok"


def test_an_outdated_message_may_stay(pay, ledger):
    pay(Receiver("ok"), payload="1")
    assert pay(Receiver(), payload="2").why == "outdated"
    record = ledger.effects.resolve(ledger.effects.list()[0].key, "confirmed", "nobody minds")
    assert not record.needs_attention
    assert pay(Receiver(), payload="2").why == "confirmed"


def test_a_stored_error_is_sent_under_a_new_key_once_a_person_says_so(pay, ledger):
    receiver = Receiver(OutcomeUnknown("500", final=True), "ok")
    assert pay(receiver).record.state == "unknown"
    assert pay(receiver).why == "ask"
    ledger.effects.resolve(receiver.keys[0], "failed", "they say that it never happened")
    assert pay(receiver).record.generation == 2
    assert len(set(receiver.keys)) == 2


def test_skip_is_settled_at_once(pay):
    paid = pay(Receiver(TimeoutError()), on_unknown="skip")
    assert (paid.record.state, paid.record.note) == ("unknown", 'not sent again: on_unknown="skip"')


def test_asked_right_after_a_timeout_only_a_yes_counts(pay):
    receiver = Receiver(TimeoutError(), "ok")
    assert pay(receiver, on_unknown=lambda *_: None, attempts=4).record.state == "unknown"
    assert len(receiver.keys) == 1
    # The next run asks again, and believes it
    assert pay(receiver, on_unknown=lambda *_: None, attempts=4).record.state == "confirmed"


def test_a_key_that_expires_while_a_call_waits_is_not_used(pay, ledger, clock):
    policy = {"on_unknown": Retry(valid_for=minutes(10), then="ask"), "timeout": 1.0}
    pay(Receiver(TimeoutError()), **policy)
    wanted = Wanted(Subject("shop", "post", business_key="7"), fingerprint_of("1"), "1")
    receiver = Receiver("ok")
    slow = drive(ledger, [Due(wanted, receiver.send)], Policy(**policy), pace=lambda: clock.advance(timedelta(hours=1)))
    assert next(slow).record.state == "unknown"
    assert receiver.keys == []


def test_ctrl_c_leaves_what_was_not_begun_owed(ledger):
    class Stop(BaseException):
        pass

    def send(key: str) -> str:
        if len(keys := sent) == 1:
            raise Stop
        keys.append(key)
        return "ok"

    sent: list[str] = []
    due = [Due(Wanted(Subject("shop", "post", business_key=str(n)), "f", "1"), send) for n in range(4)]
    with pytest.raises(Stop):
        list(drive(ledger, due, Policy(RETRY)))
    states = {record.subject.business_key: (record.state, record.attempts) for record in ledger.effects.list()}
    assert states == {"0": ("confirmed", 1), "1": ("unknown", 1), "2": ("failed", 0), "3": ("failed", 0)}


def test_an_error_raised_after_a_refused_connection_is_judged_by_itself():
    def backup() -> None:
        try:
            raise ConnectionRefusedError
        except ConnectionRefusedError:
            raise TimeoutError  # noqa: B904 - as people write it

    assert call(backup).kind == "unknown"


def test_suppressed_effects_stay_so_until_they_are_asked_for(ledger, pay):
    wanted = Wanted(Subject("shop", "post", business_key="7"), "")
    assert ledger.effects.suppress([wanted]) == 1
    assert ledger.effects.suppress([wanted]) == 0
    assert pay(Receiver()).why == "suppressed"
    assert pay(Receiver("ok"), mode="send").record.response == "ok"


def test_dead_ones_are_sent_when_asked_for(pay):
    assert pay(Receiver(NotSent("closed"))).record.state == "dead"
    assert pay(Receiver()).why == "dead"
    assert pay(Receiver("ok"), mode="send").record.attempts == 1


def test_claims_and_outcomes_of_the_same_keys_never_wait_for_each_other_in_a_circle(kind, new_url):
    """Seen as a deadlock of Postgres: one process locked by key what the other locked by subject."""
    url = new_url()
    open_ledger(url)
    # SQLite has one writer at a time
    turns = 8 if FULL or kind == "postgres" else 2
    wanted = [Wanted(Subject("shop", "mail", business_key=str(number)), "f", "1") for number in range(100)]

    more = [Wanted(Subject("shop", "mail", business_key=f"x{number}"), "") for number in range(300, 200, -1)]

    def claim_and_settle(_worker: int) -> None:
        ledger, policy = open_ledger(url), Policy(RETRY, attempts=10_000)
        for _ in range(turns):
            claimed = [
                each for each in ledger.effects.claim(wanted, policy.decide, ttl=timedelta(minutes=1)) if each.claim
            ]
            ledger.effects.suppress([*reversed(wanted), *more])
            if claimed:
                ledger.effects.renew(claimed[0].claim, timedelta(minutes=2))
                ledger.effects.settle(claimed[0].claim, [Outcome(each.record.key, "failed") for each in claimed])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(claim_and_settle, range(4)))


def test_an_outcome_whose_commit_got_no_answer_is_recognised(ledger, monkeypatch):
    wanted = Wanted(Subject("shop", "mail", business_key="7"), "f", "1")
    (claimed,) = ledger.effects.claim([wanted], Policy("skip").decide, ttl=timedelta(minutes=1))
    write, lost = ledger.database.write, []

    @contextmanager
    def answer_lost():
        with write() as connection:
            yield connection
        if not lost:
            lost.append(True)
            raise LedgerBusy("the server ended the connection")

    monkeypatch.setattr(ledger.database, "write", answer_lost)
    settled = ledger.effects.settle(claimed.claim, [Outcome(claimed.record.key, "confirmed", '{"ok":1}')])
    assert settled[claimed.record.key].response == {"ok": 1}
    assert lost


def test_an_answer_is_recorded_though_the_ledger_was_busy(new_url):
    ledger = open_ledger(new_url(), busy_seconds=0.2)
    wanted = Wanted(Subject("shop", "mail", business_key="7"), "f", "1")
    (claimed,) = ledger.effects.claim([wanted], Policy(RETRY).decide, ttl=timedelta(minutes=1))
    locked, free = threading.Event(), threading.Event()

    def hold() -> None:
        with ledger.database.write() as connection:
            connection.execute(sa.update(effects).values(note="held"))
            locked.set()
            free.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait(10)
    threading.Timer(0.5, free.set).start()
    settled = ledger.effects.settle(claimed.claim, [Outcome(claimed.record.key, "confirmed")])
    holder.join()
    assert settled[claimed.record.key].state == "confirmed"
