"""Receivers and ways to ask them, against real servers."""

from __future__ import annotations

import mailbox

import pytest
import sqlalchemy as sa

from tests.support.mail import mail_server
from tests.support.provider import provider
from twice import Day, Overwrite, Pipeline, Table, hours
from twice.effects import (
    Http,
    Rejected,
    Retry,
    Smtp,
    Webhook,
    http_contains,
    http_get,
    http_head,
    once,
    sent_mail,
    sql_lookup,
)
from twice.effects.calls import call
from twice.errors import DefinitionError

MAIL = {"to": "ana@shop.example", "subject": "Stock", "text": "12 boxes"}


def test_a_mail_goes_out_once_with_an_id_of_its_own(ledger):
    with mail_server() as (port, mails):
        target = Smtp("127.0.0.1", "shop@shop.example", port=port)
        for _ in range(2):
            with once(ledger, key="2026-04-25", payload=MAIL, on_unknown="skip") as mail:
                if mail.owed:
                    mail.result = target.send(MAIL, key=mail.key, timeout=5).response
    assert len(mails) == 1
    assert f"Message-ID: {target.message_id(mail.key)}" in mails[0]
    assert mail.result["message_id"] == target.message_id(mail.key)


@pytest.mark.parametrize(("refuses", "kind"), [("RCPT", "rejected"), ("MAIL", "rejected"), ("DATA", "not_sent")])
def test_a_mail_that_is_refused_was_not_sent(refuses, kind):
    with mail_server(refuses=refuses) as (port, mails):
        target = Smtp("127.0.0.1", "shop@shop.example", port=port)
        assert call(lambda: target.send(MAIL, key="k", timeout=5)).kind == kind
    assert mails == []


def test_a_server_that_is_not_there_was_not_reached():
    with mail_server() as (port, _):
        pass
    assert call(lambda: Smtp("127.0.0.1", "a@b", port=port).send(MAIL, key="k", timeout=5)).kind == "not_sent"
    assert call(lambda: Webhook(f"http://127.0.0.1:{port}/x").send("hi", key="k", timeout=5)).kind == "not_sent"


def test_a_mail_without_an_address_is_rejected():
    with pytest.raises(Rejected, match="a mail needs"):
        Smtp("127.0.0.1", "a@b").send({"text": "x"}, key="k", timeout=1)


def test_a_webhook_takes_a_text():
    with provider(honours_keys=False) as receiver:
        Webhook(receiver.url).send("revenue: 30", key="k", timeout=5)
    assert receiver.payloads == [{"text": "revenue: 30"}]


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [("400", "rejected"), ("429", "not_sent"), ("500", "unknown"), ("late", "unknown"), ("stored 500", "unknown")],
)
def test_what_an_answer_says_about_the_call(trouble, kind):
    with provider(trouble=[trouble]) as receiver:
        assert call(lambda: Http(receiver.url).send(1, key="k", timeout=5)).kind == kind
        again = call(lambda: Http(receiver.url).send(1, key="k", timeout=5))
        assert again.kind == ("stored_error" if trouble == "stored 500" else "made")
        if trouble == "late":
            assert "Idempotent-Replayed" in again.note
        assert call(lambda: Http(receiver.url).send(2, key="k", timeout=5)).kind == "key_used"


def test_asking_by_get_and_by_query(tmp_path):
    with provider() as receiver:
        look = http_get(f"{receiver.url}/{{key}}")
        assert look("k", None) is None
        Http(receiver.url).send(1, key="k", timeout=5)
        assert look("k", None) == {"key": "k", "made": 1}
    with pytest.raises(OSError, match="refused"):
        look("k", None)
    url = f"sqlite:///{tmp_path}/app.db"
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("create table sent (key text, n int)"))
        connection.execute(sa.text("insert into sent values ('k', 7)"))
    found = sql_lookup(url, "select n from sent where key = :key")
    assert (found("k", None), found("x", None)) == ({"n": 7}, None)


def declare(**how: object) -> None:
    pipeline = Pipeline("shop", grain=Day)
    table = Table("lake.a.t", partition=Day("d"), write=Overwrite())
    pipeline.sql("t", reads={}, writes=table, query="select 1")
    function = how.pop("function", lambda rows: {"text": "x"})
    pipeline.effect(**({"after": table, "on_unknown": "skip", "name": "post"} | how))(function)


HOURS = Retry(valid_for=hours(24), then="ask")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"to": Webhook("https://x/y"), "on_unknown": HOURS}, "Webhook honours no idempotency key"),
        ({"to": Smtp("h", "a@b"), "on_unknown": HOURS}, "Smtp honours no idempotency key"),
        ({"on_unknown": HOURS}, "does not take `key`"),
        ({"on_unknown": None}, "declare what to do when a crash leaves the outcome unknown"),
        ({"on_change": "perhaps"}, "on_change='perhaps' must be"),
        (
            {"after": Table("lake.a.other", partition=Day("d"), write=Overwrite())},
            "no step of shop writes lake.a.other",
        ),
        ({"after": "t"}, "after= must be a Table"),
        ({"function": lambda lines: None}, "its function takes lines; it can take rows"),
        ({"timeout": 0}, "timeout=0 must be a number of seconds"),
        ({"timeout": 10**6}, "timeout=1000000 must be a number of seconds up to 3600"),
        ({"parallel": 0}, "parallel=0 must be 1 or more"),
        ({"rate": "often"}, "rate='often'"),
        ({"name": "a b"}, "effect name 'a b'"),
    ],
)
def test_an_effect_that_could_not_keep_its_promise_is_refused(how, says):
    with pytest.raises(DefinitionError, match=says):
        declare(**how)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"valid_for": 24, "then": "ask"}, "must be a duration such as hours"),
        ({"valid_for": hours(1), "then": "x"}, "then='x'"),
    ],
)
def test_a_retry_says_how_long_and_what_then(given, says):
    with pytest.raises(DefinitionError, match=says):
        Retry(**given)


def test_a_message_is_found_in_its_channel_by_its_marker():
    with provider(honours_keys=False) as receiver:
        look = http_contains(receiver.url.replace("calls", "history"))
        assert look("k1", None) is None
        Webhook(receiver.url, marker="ref {key}").send("revenue: 30", key="k1", timeout=5)
        assert look("k1", None) == {"found": "k1"}
        assert look("k2", None) is None
    assert receiver.payloads == [{"text": "revenue: 30\nref k1"}]
    with pytest.raises(Rejected, match="needs"):
        Webhook(receiver.url, marker="ref {key}").send({"blocks": []}, key="k1", timeout=5)


def test_a_channel_that_does_not_let_us_in_says_nothing(tmp_path):
    """Slack answers a wrong token with status 200."""
    with provider(honours_keys=False) as receiver:
        receiver.payloads = {"ok": False, "error": "invalid_auth"}
        with pytest.raises(LookupError, match="invalid_auth"):
            http_contains(receiver.url.replace("calls", "history"))("k1", None)


def test_an_object_is_asked_for_by_head():
    with provider() as receiver:
        Http(receiver.url).send(1, key="k1", timeout=5)
        look = http_head(f"{receiver.url}/{{key}}")
        assert look("k1", None) == {"found": f"{receiver.url}/k1"}
        assert look("k2", None) is None


@pytest.mark.parametrize("kind", ["mbox", "maildir"])
def test_a_mail_is_found_among_those_that_were_sent(tmp_path, kind):
    place = tmp_path / "sent"
    look = sent_mail(place)
    with pytest.raises(LookupError, match="does not exist"):
        look("k1", None)
    box = mailbox.mbox(place) if kind == "mbox" else mailbox.Maildir(place)
    box.add("Message-ID: <k1@shop.example>\n\nhello")
    box.close()
    assert look("k1", None) == {"message_id": "<k1@shop.example>"}
    assert look("k", None) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: http_head("https://x/"),
        lambda: http_contains("ftp://x"),
        lambda: Webhook("https://x", marker="ref"),
    ],
)
def test_ways_to_ask_need_a_place_for_the_key(make):
    with pytest.raises(DefinitionError, match="must"):
        make()
