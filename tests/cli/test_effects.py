"""`twice effects`, and what `twice status` says about effects."""

from __future__ import annotations

from datetime import date

import pytest

from twice.effects.driving import Due, drive, fingerprint_of
from twice.effects.policies import Policy
from twice.ledger import Subject, Wanted, open_ledger
from twice.model.grains import Day
from twice.model.scopes import Scope

MORE = """
from twice.effects import Webhook

@shop.effect(after=facts, to=Webhook("https://hooks.example/secret"), on_unknown="ask")
def post(rows, window):
    return "x"
"""


@pytest.fixture
def shop(project):
    """A shop of three days: the post of the first was sent, of the second it is not known, the third is dead."""
    project.code((project.folder / f"{project.module}.py").read_text() + MORE)
    project.ledger.parent.mkdir(exist_ok=True)
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    pay(ledger, 1, lambda key: {"ok": key})
    pay(ledger, 2, fails(TimeoutError("no answer")))
    pay(ledger, 3, fails(ConnectionRefusedError("closed")), attempts=1)
    return project


def fails(error: Exception):
    def send(_key: str) -> None:
        raise error

    return send


def pay(ledger, day: int, send, text: str = '"x"', attempts: int = 4) -> None:
    from zoneinfo import ZoneInfo

    scope = Scope(Day.unit(date(2026, 4, day).isoformat(), ZoneInfo("UTC")))
    subject = Subject("shop", "post", scope, table="lake.core.facts")
    list(drive(ledger, [Due(Wanted(subject, fingerprint_of(text), text), send)], Policy("ask", attempts=attempts)))


def test_list_shows_states_and_filters(shop):
    found = shop.call("effects", "list", "--json").json
    assert {one["scope"]["window"]["start"][:10]: one["state"] for one in found} == {
        "2026-04-01": "confirmed", "2026-04-02": "unknown", "2026-04-03": "dead",
    }  # fmt: skip
    assert len(shop.call("effects", "list", "--attention", "--json").json) == 2
    (one,) = shop.call("effects", "list", "shop", "--for", "2026-04-02", "--json").json
    assert one["error"] == "no answer"
    assert "TimeoutError" not in shop.call("effects", "list").out
    assert shop.call("effects", "list", "--state", "confirmed").out.count("shop.post") == 1
    assert shop.call("effects", "list", "--for", "2026-04-02").code == 2
    assert shop.call("effects", "list", "--effect", "other").out == "no effects\n"


def test_status_names_what_a_person_has_to_look_at_and_exits_with_1(shop):
    told = shop.call("status", "shop")
    assert told.code == 1
    assert "effects that need attention" in told.out
    assert told.out.count("shop.post") == 2
    assert len(shop.call("status", "shop", "--json").json["effects"]) == 2


def test_an_outdated_message_is_shown(shop):
    pay(open_ledger(f"sqlite:///{shop.ledger}"), 1, fails(AssertionError()), text='"y"')
    assert "outdated" in shop.call("status", "shop").out


def test_resolve_says_what_became_of_it(shop):
    (unknown,) = shop.call("effects", "list", "--state", "unknown", "--json").json
    key = unknown["key"][:10]
    assert shop.call("effects", "resolve", key, "--because", "x").code == 2
    assert shop.call("effects", "resolve", key, "--sent").code == 2  # without a reason
    done = shop.call("effects", "resolve", key, "--sent", "--because", "ana saw it")
    assert done.out == "shop.post 2026-04-02/2026-04-03: confirmed\n"
    again = shop.call("effects", "resolve", key, "--sent", "--because", "ana saw it")
    assert again.code == 2
    assert "unknown, failed, dead or outdated ones can be resolved" in again.err
    (dead,) = shop.call("effects", "list", "--state", "dead", "--json").json
    shop.call("effects", "resolve", dead["key"], "--sent", "--because", "by hand")
    assert shop.call("status", "shop").code == 0


def test_show_tells_what_was_sent_and_answered(shop):
    (sent,) = shop.call("effects", "list", "--state", "confirmed", "--json").json
    assert "ok" in shop.call("effects", "show", sent["key"][:12]).out
    assert shop.call("effects", "show", sent["key"], "--json").json[0]["generation"] == 1
    assert shop.call("effects", "show", "zz").code == 2


def test_what_send_cannot_do_is_said_before_spark_starts(shop):
    assert (
        "has no effect 'other'" in shop.call("effects", "send", "shop", "--for", "2026-04-02", "--effect", "other").err
    )
    assert shop.call("effects", "send", "shop", "--for", "nonsense").code == 2


def test_without_a_ledger_there_are_no_effects(project):
    assert project.call("effects", "list").out == "no effects\n"
    assert project.call("effects", "show", "k").code == 2


def test_s43_the_contract_lists_effects(shop):
    told = shop.call("contract", "shop").out
    assert "| Effects | post to Webhook, once for each partition; outcome unknown: ask; content changed: keep; " in told
    assert "hooks.example" not in told
