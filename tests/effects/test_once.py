"""One guarded call without a pipeline, on both ledgers, against a provider on a real socket."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from datetime import timedelta

import pytest

from tests.support.provider import provider
from twice import hours
from twice.effects import NotSent, OutcomeUnknown, Rejected, Retry, guarded, once
from twice.effects.targets.http import Http
from twice.errors import DefinitionError, LeaseLost, ScopeHeld, UsageError

DAY = Retry(valid_for=hours(24), then="ask")


@pytest.fixture
def receiver():
    with provider() as found:
        yield found


def post(receiver, key: str, payload: object = None) -> object:
    return Http(receiver.url).send(payload, key=key, timeout=5).response


def sent(ledger, receiver, key="invoice-7", payload=None, on_unknown=DAY, **how):
    with once(ledger, key=key, payload=payload, on_unknown=on_unknown, **how) as call:
        if call.owed:
            call.result = post(receiver, call.key, payload)
    return call.result


def test_a_call_is_made_once_and_its_answer_replayed(ledger, receiver):
    assert sent(ledger, receiver) == {"number": 1}
    assert sent(ledger, receiver) == {"number": 1}
    assert receiver.calls == 1
    assert sent(ledger, receiver, key="invoice-8") == {"number": 2}


def test_names_keep_keys_apart(ledger, receiver):
    sent(ledger, receiver)
    sent(ledger, receiver, name="reminder")
    assert receiver.calls == 2


@pytest.mark.parametrize(("trouble", "says"), [("400", "HTTP Error 400"), ("429", "429")])
def test_what_was_refused_is_owed_still(ledger, receiver, trouble, says):
    receiver.trouble = [trouble]
    with pytest.raises(Exception, match=says):
        sent(ledger, receiver)
    (record,) = ledger.effects.list()
    assert (record.state, record.attempts) == ("failed", 1)
    assert sent(ledger, receiver) == {"number": 1}


def test_attempts_that_are_used_up_leave_it_dead(ledger, receiver):
    receiver.trouble = ["400"] * 5
    for _ in range(2):
        with pytest.raises(Exception, match="400"):
            sent(ledger, receiver, attempts=2)
    with pytest.raises(Rejected, match="failed after 2 attempts"):
        sent(ledger, receiver, attempts=2)
    assert ledger.effects.list()[0].state == "dead"
    assert receiver.calls == 2


def test_an_answer_that_is_lost_is_asked_for_with_the_same_key(ledger, receiver):
    receiver.trouble = ["late"]
    with pytest.raises(Exception, match="without response"):
        sent(ledger, receiver)
    assert ledger.effects.list()[0].state == "unknown"
    assert sent(ledger, receiver) == {"number": 1}
    assert set(receiver.made.values()) == {1}


def test_at_most_once_leaves_an_unknown_outcome_alone(ledger, receiver):
    receiver.trouble = ["late"]
    with pytest.raises(Exception, match="without response"):
        sent(ledger, receiver, on_unknown="skip")
    assert sent(ledger, receiver, on_unknown="skip") is None
    (record,) = ledger.effects.list()
    assert (record.state, record.note) == ("unknown", 'not sent again: on_unknown="skip"')
    assert receiver.calls == 1


def test_ask_waits_for_a_person(ledger, receiver):
    receiver.trouble, receiver.honours_keys = ["late"], False
    with pytest.raises(Exception, match="without response"):
        sent(ledger, receiver, on_unknown="ask")
    with pytest.raises(OutcomeUnknown, match="not known") as asked:
        sent(ledger, receiver, on_unknown="ask")
    key = ledger.effects.list()[0].key
    assert f"twice effects resolve {key[:12]} --sent" in asked.value.next_step
    ledger.effects.resolve(key[:12], "failed", "ana looked: it is not there")
    assert sent(ledger, receiver, on_unknown="ask") == {"number": 2}
    assert receiver.calls == 2


def test_reconcile_finds_what_was_made_and_sends_what_was_not(ledger, receiver):
    def look(key: str, _payload: object) -> object:
        try:
            with urllib.request.urlopen(f"{receiver.url}/{key}", timeout=5) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError:
            return None

    receiver.trouble = ["late", "500"]
    with pytest.raises(Exception, match="without response"):
        sent(ledger, receiver, on_unknown=look)
    assert sent(ledger, receiver, on_unknown=look) == {"key": ledger.effects.list()[0].key, "made": 1}
    with pytest.raises(OutcomeUnknown, match="500"):
        sent(ledger, receiver, key="b", on_unknown=look)
    assert sent(ledger, receiver, key="b", on_unknown=look) == {"number": 2}
    assert sorted(receiver.made.values()) == [1, 1]


def test_s55_a_key_that_the_provider_has_forgotten_is_not_sent_blindly(ledger, clock, receiver):
    # Given a call on Friday whose answer is lost, to a provider that remembers keys for a day
    receiver.trouble = ["late"]
    with pytest.raises(Exception, match="without response"):
        sent(ledger, receiver)
    # When the rerun comes on Monday
    clock.advance(timedelta(days=3))
    receiver.remembers = 0.0
    with pytest.raises(OutcomeUnknown, match="not known"):
        sent(ledger, receiver)
    # Then nothing was sent again
    assert set(receiver.made.values()) == {1}
    assert sent(ledger, receiver, on_unknown=Retry(valid_for=hours(24), then="skip")) is None
    assert receiver.calls == 1


def test_a_stored_error_that_is_replayed_ends_as_unknown(ledger, receiver):
    receiver.trouble = ["stored 500"]
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="500"):
            sent(ledger, receiver)
    (record,) = ledger.effects.list()
    assert record.state == "unknown"
    assert record.note.startswith("the provider replays a stored error")
    with pytest.raises(OutcomeUnknown, match="not known"):
        sent(ledger, receiver)
    assert receiver.calls == 2


def test_a_provider_that_knows_the_key_with_another_payload_has_made_the_call(ledger, receiver):
    receiver.trouble = ["late"]
    with pytest.raises(Exception, match="without response"):
        sent(ledger, receiver, payload={"amount": 1})
    with pytest.raises(Exception, match="another payload"):
        sent(ledger, receiver, payload={"amount": 2})
    (record,) = ledger.effects.list()
    assert (record.state, record.payload) == ("confirmed", {"amount": 1})
    sent(ledger, receiver, payload={"amount": 2})
    assert ledger.effects.list()[0].outdated
    assert receiver.payloads == [{"amount": 1}]


@pytest.mark.parametrize(("on_change", "sends"), [("keep", 1), ("resend", 2), ("fail", 1)])
def test_another_payload(ledger, receiver, on_change, sends):
    sent(ledger, receiver, payload=1)
    if on_change == "fail":
        with pytest.raises(Rejected, match="another payload"):
            sent(ledger, receiver, payload=2, on_change=on_change)
    else:
        sent(ledger, receiver, payload=2, on_change=on_change)
    assert len(receiver.payloads) == sends
    (record,) = ledger.effects.list()
    assert record.generation == sends
    assert bool(record.outdated) == (sends == 1)
    # As it was again: nothing is outdated any more, and the next change is noticed
    sent(ledger, receiver, payload=1 if sends == 1 else 2, on_change=on_change)
    assert not ledger.effects.list()[0].outdated


def test_a_frozen_sender_can_neither_confirm_nor_clear(ledger, clock, receiver):
    # Given a sender that stops between the call and its record, for longer than its lease
    with once(ledger, key="k", on_unknown=DAY) as call:
        first = post(receiver, call.key)
        with pytest.raises(ScopeHeld, match="making this call"):  # while it is held, nobody else sends
            sent(ledger, receiver, key="k")
        clock.advance(timedelta(minutes=5))
        # When another process takes over, with the same key,
        assert sent(ledger, receiver, key="k") == first
        call.result = {"number": 99}
    # Then what the first one wakes up with is not recorded
    assert call.result == first
    assert ledger.effects.list()[0].response == first
    assert set(receiver.made.values()) == {1}


def test_without_keys_a_frozen_sender_may_send_twice_which_is_the_limit(ledger, clock):
    # A sender freezes before its call; its successor asks, finds nothing and sends; then the first one wakes up.
    guard = once(ledger, key="k", on_unknown=lambda *_: None)
    with provider(honours_keys=False) as receiver:
        with pytest.raises(LeaseLost, match="may have got it twice"), guard as call:  # noqa: PT012
            clock.advance(timedelta(minutes=5))
            sent(ledger, receiver, key="k", on_unknown=lambda *_: None)
            post(receiver, call.key)
        assert sum(receiver.made.values()) == 2


def test_a_function_is_guarded_by_its_arguments(ledger, receiver):
    @guarded(ledger, name="charge", key=lambda number, _amount: f"payment-{number}", on_unknown=DAY)
    def charge(number: int, amount: int, idempotency_key: str = "") -> object:
        return post(receiver, idempotency_key, {"number": number, "amount": amount})

    assert charge(1, 5) == charge(1, 5) == {"number": 1}
    assert charge(2, 5) == {"number": 2}
    assert receiver.calls == 2


def test_a_callback_that_raises_after_sending_leaves_the_outcome_unknown(ledger, receiver):
    with pytest.raises(ValueError, match="oops"), once(ledger, key="k", on_unknown="skip") as call:  # noqa: PT012
        post(receiver, call.key)
        raise ValueError("oops")
    assert ledger.effects.list()[0].state == "unknown"
    with pytest.raises(NotSent), once(ledger, key="l", on_unknown="skip") as call:
        raise NotSent("the address is not known yet")
    assert ledger.effects.list(states=["failed"])[0].subject.business_key == "l"


def test_an_answer_that_cannot_be_stored_is_not_and_the_call_counts(ledger):
    for number, answer in enumerate(({"x": object()}, "x" * 100_000)):
        with once(ledger, key=str(number), on_unknown="skip") as call:
            call.result = answer
    notes = {record.subject.business_key: record for record in ledger.effects.list()}
    assert {record.state for record in notes.values()} == {"confirmed"}
    assert "not JSON" in notes["0"].note
    assert "more than the 64,000" in notes["1"].note


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"key": ""}, "must be a text that names the call"),
        ({"key": None}, "must be a text that names the call"),
        ({"payload": object()}, "the payload is not JSON"),
        ({"on_unknown": None}, "declare what to do when a crash leaves the outcome unknown"),
        ({"on_unknown": "again"}, "must be Retry"),
        ({"on_change": "maybe"}, "on_change='maybe' must be"),
        ({"timeout": 0}, "timeout=0 must be a number of seconds"),
        ({"attempts": 0}, "attempts=0 must be 1 or more"),
    ],
)
def test_bad_input(ledger, given, says):
    guard = once(ledger, **({"key": "k", "on_unknown": "skip"} | given))
    with pytest.raises((UsageError, DefinitionError), match=says), guard:
        pass
    assert ledger.effects.list() == []


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from twice.effects import once
for _ in range(2):
    with once(sys.argv[1], key="a", on_unknown="skip") as call:
        print(call.owed, call.result)
        if call.owed:
            call.result = 1
"""


def test_no_spark_is_needed(tmp_path):
    command = [sys.executable, "-c", WITHOUT_SPARK, f"sqlite:///{tmp_path}/ledger.db"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True None\nFalse 1\n"
