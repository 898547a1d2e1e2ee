"""The payments provider pages, limits, fails and charges once; its client stays polite."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from examples.payments_api.charges import Charges
from examples.payments_api.trouble import Limit, Trouble
from examples.shop.generator import epoch_day
from examples.shop.payments_client import PaymentsClient
from examples.shop.truth import expected_orders
from twice import Window

DAY = date(2026, 4, 25)
START = datetime(2026, 4, 25, tzinfo=timezone.utc)
NEXT = START + timedelta(days=1)
ORDERS, CUSTOMERS = 60, 50
ROOT = Path(__file__).parents[2]


def call(route: str, form: dict[str, object] | None = None, **headers: str) -> tuple[int, dict[str, Any], Any]:
    """Call the provider as any program would; return status, body and headers."""
    body = None if form is None else urlencode(form).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(os.environ["PAYMENTS_API_URL"] + route, body, named)  # noqa: S310 - our own server
    try:
        with urlopen(request, timeout=5) as answer:  # noqa: S310 - our own server
            return answer.status, json.load(answer), answer.headers
    except HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


def page(start: datetime, end: datetime, **more: object) -> str:
    span = {"created[gte]": int(start.timestamp()), "created[lt]": int(end.timestamp())}
    return f"/charges?{urlencode({**span, **more})}"


def test_the_charges_pay_for_the_orders_to_the_cent():
    charges = Charges(ORDERS, CUSTOMERS)
    first, after = (epoch_day(DAY + timedelta(days=n)) * 86_400 for n in (0, 2))
    paid = [charge for charge in charges.newest_first(first, after) if charge.order_id.startswith(f"{DAY:%Y%m%d}")]
    good = [charge for charge in paid if charge.status == "succeeded"]
    assert Counter(charge.order_id for charge in good) == {f"{DAY:%Y%m%d}{n:08d}": 1 for n in range(ORDERS)}
    assert 0 < len(paid) - len(good) < ORDERS / 5
    net = sum(charge.amount - charge.amount_refunded for charge in good)
    assert Decimal(net) / 100 == expected_orders(DAY, ORDERS, CUSTOMERS).revenue


def test_some_orders_are_paid_after_midnight():
    charges = Charges(1_000)
    start = epoch_day(DAY) * 86_400
    days = {charge.order_id[:8] for charge in charges.newest_first(start, start + 86_400)}
    assert days == {"20260424", "20260425"}


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_pages_of_any_size_hold_every_charge_once_newest_first(providers, limit):
    provider = providers.start(orders=ORDERS)
    found, after = [], {}
    while True:
        status, body, _ = call(page(START, NEXT, limit=limit, **after))
        assert status == 200
        found += body["data"]
        if not body["has_more"]:
            break
        assert len(body["data"]) == limit
        after = {"starting_after": found[-1]["id"]}
    whole = [c.to_json() for c in provider.charges.newest_first(int(START.timestamp()), int(NEXT.timestamp()))]
    assert found == whole
    assert found == sorted(found, key=lambda one: (one["created"], one["id"]), reverse=True)
    assert len(found) > ORDERS / 2
    assert provider.calls == {"GET /charges": -(-len(found) // limit)}


def test_the_window_is_half_open_and_two_halves_make_the_whole(providers):
    providers.start(orders=20)
    body = call(page(START, NEXT, limit=100))[1]
    middle = datetime.fromtimestamp(body["data"][5]["created"], timezone.utc)
    late, early = (call(page(*span, limit=100))[1]["data"] for span in ((middle, NEXT), (START, middle)))
    assert late + early == body["data"]
    assert late[-1]["created"] == middle.timestamp()
    assert call(page(NEXT, START))[1] == {"object": "list", "data": [], "has_more": False}


@pytest.mark.parametrize(
    ("route", "status", "said"),
    [
        ("/charges", 400, "created[gte] must be a whole number"),
        (page(START, NEXT, limit=0), 400, "limit must be 1 to 100"),
        (page(START, NEXT, limit=101), 400, "limit must be 1 to 100"),
        (page(START, NEXT, limit="-1"), 400, "limit must be a whole number"),
        (page(START, START + timedelta(days=500)), 400, "at most 400 days"),
        (page(START, NEXT, starting_after="ch_2026042500000099_1"), 404, "no such charge"),
        (page(START, NEXT, starting_after="ch_2026139900000001_1"), 404, "no such charge"),
        ("/charges/none", 404, "no such charge: none"),
        ("/refunds", 404, "there is no GET /refunds"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(providers, route, status, said):
    providers.start(orders=20)
    found, body, _ = call(route)
    assert found == status
    assert said in body["error"]["message"]


def test_who_asks_too_often_is_told_when_to_come_back(providers, patient):
    provider = providers.start(orders=1, per_second=0.5, burst=2)
    answers = [call(page(START, NEXT)) for _ in range(3)]
    assert [status for status, _, _ in answers] == [200, 200, 429]
    assert answers[2][2]["Retry-After"] == "2"
    patient.sleep(2)
    assert call(page(START, NEXT))[0] == 200
    assert provider.answers == {"200": 3, "429": 1}
    assert call("/stats")[1]["answers"] == {"200": 3, "429": 1}


def test_a_limit_that_lets_no_call_through_is_refused():
    with pytest.raises(ValueError, match="must let calls through"):
        Limit(per_second=0)


def test_the_same_seed_fails_the_same_calls():
    def failing(seed: int) -> list[int]:
        return [call for call in range(1_000) if Trouble(seed, errors=5).fails(call)]

    assert failing(1) == failing(1) != failing(2)
    assert 20 < len(failing(1)) < 90
    assert Trouble().delay(1) == 0.0
    assert {Trouble(slow=100, slow_seconds=2).delay(call) for call in range(5)} == {2}


CHARGE = {"amount": 995, "currency": "usd", "customer": "cus_7"}


def test_an_idempotency_key_is_charged_once_whatever_gets_lost(providers):
    provider = providers.start(orders=1, trouble=Trouble(seed=3, errors=50))
    answers = [call("/charges", CHARGE, Idempotency_Key="order 7") for _ in range(12)]
    good = [body for status, body, _ in answers if status == 200]
    assert {status for status, _, _ in answers} == {200, 500}
    assert len(good) > 1
    assert all(body == good[0] for body in good)
    assert provider.stats()["charged"] == 1
    assert provider.calls == {"POST /charges": 12}


def test_one_key_from_many_threads_is_one_charge(providers):
    provider = providers.start(orders=1)
    threads = [
        threading.Thread(target=call, args=("/charges", CHARGE), kwargs={"Idempotency_Key": "k"}) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (provider.stats()["charged"], provider.answers) == (1, {"200": 8})


def test_a_key_belongs_to_one_charge_and_without_a_key_each_call_charges(providers):
    provider = providers.start(orders=1)
    first, again = (call("/charges", CHARGE, Idempotency_Key="k") for _ in range(2))
    assert (first[1], again[1]) == (first[1], first[1])
    assert (first[2]["Idempotent-Replayed"], again[2]["Idempotent-Replayed"]) == (None, "true")
    other = call("/charges", {**CHARGE, "amount": 996}, Idempotency_Key="k")
    assert (other[0], other[1]["error"]["type"]) == (409, "idempotency_error")
    assert [call("/charges", CHARGE)[0] for _ in range(2)] == [200, 200]
    assert provider.stats()["charged"] == 3
    assert call("/charges", {**CHARGE, "amount": 0})[0] == 400
    assert call("/charges", {"amount": 5})[0] == 400
    assert call("/charges", {"blob": "x" * 70_000})[0] == 413
    assert call(f"/charges/{first[1]['id']}")[1] == first[1]
    now = datetime.fromtimestamp(first[1]["created"], timezone.utc)
    recent = call(page(now, now + timedelta(minutes=5), limit=100))[1]["data"]
    assert first[1] in recent


def test_the_client_pages_through_errors_without_asking_twice_for_what_it_has(providers):
    provider = providers.start(orders=ORDERS, trouble=Trouble(seed=5, errors=25))
    client = PaymentsClient(os.environ["PAYMENTS_API_URL"], page=5)
    found = [charge["id"] for charge in client.charges(START, NEXT)]
    assert len(set(found)) == len(found) > ORDERS / 2
    pages = -(-len(found) // 5)
    assert provider.answers["200"] == pages
    assert provider.answers["500"] > 0
    assert provider.calls.total() == pages + provider.answers["500"]


def test_the_client_keeps_below_the_limit_by_itself(providers, patient):
    provider = providers.start(orders=ORDERS, per_second=16, burst=1)
    began = patient.at
    list(PaymentsClient(os.environ["PAYMENTS_API_URL"], per_second=16, page=1).charges(START, NEXT))
    calls = provider.calls.total()
    assert calls > 40
    assert provider.answers == {"200": calls}
    assert patient.at - began == pytest.approx((calls - 1) / 16)


def test_the_client_waits_as_long_as_a_429_asks_and_then_goes_on(providers, patient):
    provider = providers.start(orders=30, per_second=0.25, burst=3)
    found = list(PaymentsClient(os.environ["PAYMENTS_API_URL"], page=5).charges(START, NEXT))
    pages = -(-len(found) // 5)
    limited = provider.answers["429"]
    assert provider.answers == {"200": pages, "429": limited}
    assert limited == pages - 3
    assert sum(wait for wait in patient.waits if wait >= 1) >= (pages - 3) * 3


def test_the_client_gives_up_when_the_errors_last_and_has_not_stormed(providers, patient):
    provider = providers.start(orders=1, trouble=Trouble(errors=100))
    with pytest.raises(HTTPError) as raised:
        list(PaymentsClient(os.environ["PAYMENTS_API_URL"]).charges(START, NEXT))
    assert raised.value.code == 500
    assert provider.calls.total() == 4
    assert [wait for wait in patient.waits if wait >= 1] == [1, 2, 4]


def test_a_long_wait_is_left_to_twice(providers, patient):
    provider = providers.start(orders=30, per_second=1 / 3_600, burst=1)
    with pytest.raises(HTTPError) as raised:
        list(PaymentsClient(os.environ["PAYMENTS_API_URL"], page=1).charges(START, NEXT))
    assert (raised.value.code, raised.value.headers["Retry-After"]) == (429, "3600")
    assert provider.calls.total() == 2
    assert max(patient.waits) < 1


def test_a_wrong_key_is_not_tried_again_and_never_shown(providers):
    provider = providers.start(orders=1, key="right")
    client = PaymentsClient(os.environ["PAYMENTS_API_URL"], "sk_secret")
    with pytest.raises(HTTPError, match="401") as raised:
        list(client.charges(START, NEXT))
    assert provider.calls.total() == 1
    assert "sk_secret" not in f"{client!r} {raised.value!r} {raised.value}"
    assert list(PaymentsClient(os.environ["PAYMENTS_API_URL"], "right").charges(START, NEXT))


def test_an_answer_that_does_not_come_is_tried_again(providers):
    provider = providers.start(orders=1, trouble=Trouble(slow=100, slow_seconds=0.3))
    with pytest.raises(TimeoutError):
        list(PaymentsClient(os.environ["PAYMENTS_API_URL"], timeout=0.05, tries=2).charges(START, NEXT))
    assert provider.calls.total() == 2
    assert len(list(PaymentsClient(os.environ["PAYMENTS_API_URL"]).charges(START, NEXT))) >= 1


def test_the_extract_of_the_guide_fetches_every_charge(providers):
    providers.start(orders=200)
    guide = (ROOT / "docs" / "guide.md").read_text()
    space: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL):
        exec(block, space)  # noqa: S102 - our own documentation
    found = list(space["fetch_charges"](Window(START, NEXT)))
    assert [(row["charge_id"], row["cents"]) for row in found] == [
        (charge["id"], charge["amount"]) for charge in PaymentsClient.from_environment().charges(START, NEXT)
    ]
    assert len(found) > 100
    assert {row["charged_on"] for row in found} == {DAY}


@pytest.mark.parametrize("url", ["", "ftp://example.com", "file:///etc/passwd", "127.0.0.1:80"])
def test_an_address_that_is_no_web_address_is_refused(url):
    with pytest.raises(ValueError, match="http://"):
        PaymentsClient(url)


def test_it_runs_as_a_program():
    command = [sys.executable, "-m", "examples.payments_api", "--port", "0", "--orders", "5", "--errors", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            found = list(PaymentsClient(url, per_second=1_000).charges(START, NEXT))
            assert found == list(PaymentsClient(url, per_second=1_000, page=1).charges(START, NEXT))
            assert len(found) > 1
        finally:
            process.terminate()
