"""The provider's HTTP interface, on the standard library only.

GET  /charges?created[gte]=…&created[lt]=…&limit=100&starting_after=ch_…   newest first, has_more
GET  /charges/ch_…
POST /charges   amount=…&currency=usd&customer=cus_…&metadata[order_id]=…, with an Idempotency-Key: charged once
GET  /stats     what was called and answered so far; neither counted nor limited
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from itertools import islice
from urllib.parse import parse_qsl, urlsplit

from examples.payments_api.charges import Charges
from examples.payments_api.trouble import Limit, Trouble

LARGEST_PAGE, DEFAULT_PAGE = 100, 10
LONGEST_SPAN = 400 * 86_400

_WHOLE = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True)
class Answer:
    """A status, a JSON body and further headers."""

    status: HTTPStatus
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """A call that the provider refuses."""

    def __init__(self, status: HTTPStatus, message: str, kind: str = "invalid_request_error", **headers: str) -> None:
        super().__init__(message)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answer = Answer(status, {"error": {"type": kind, "message": message}}, named)


_LOST = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "something went wrong on our side", "api_error").answer


@dataclass
class Provider:
    """The provider's state: its charges, its faults, and the count of its calls."""

    charges: Charges
    trouble: Trouble = field(default_factory=Trouble)
    limit: Limit = field(default_factory=Limit)
    key: str = field(default="", repr=False)
    now: Callable[[], float] = time.time
    calls: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    _remembered: dict[str, tuple[str, Answer]] = field(default_factory=dict, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def stats(self) -> dict[str, object]:
        """Count calls by route, answers by status, and what was really charged."""
        with self._lock:
            return {
                "calls": dict(self.calls),
                "answers": dict(self.answers),
                "slow": self.slow,
                "charged": len(self.charges.posted),
            }

    def answer(self, method: str, target: str, headers: Message, body: str) -> Answer:
        """Answer one call, with the trouble that is due."""
        path, query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
        route = f"{method} /charges/:id" if path.startswith("/charges/") else f"{method} {path}"
        if route == "GET /stats":
            return Answer(HTTPStatus.OK, self.stats())
        with self._lock:
            self.calls[route] += 1
            number = self.calls.total()
        try:
            self._admit(headers)
            if delay := self.trouble.delay(number):
                with self._lock:
                    self.slow += 1
                time.sleep(delay)
            found = self._route(route, path, query, headers, body)
            if self.trouble.fails(number):  # the work is done, only the answer is lost
                found = _LOST
        except Refused as refused:
            found = refused.answer
        with self._lock:
            self.answers[str(found.status.value)] += 1
        return found

    def _admit(self, headers: Message) -> None:
        if wait := self.limit.wait():
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many requests", "rate_limit_error", Retry_After=str(wait))
        if self.key and headers.get("Authorization") != f"Bearer {self.key}":
            raise Refused(HTTPStatus.UNAUTHORIZED, "no valid API key was given", "authentication_error")

    def _route(self, route: str, path: str, query: Mapping[str, str], headers: Message, body: str) -> Answer:
        if route == "GET /charges":
            return self._list(query)
        if route == "POST /charges":
            with self._lock:
                return self._post(headers.get("Idempotency-Key", ""), body)
        if route == "GET /charges/:id":
            return Answer(HTTPStatus.OK, self._find(path.removeprefix("/charges/")))
        raise Refused(HTTPStatus.NOT_FOUND, f"there is no {route}")

    def _list(self, query: Mapping[str, str]) -> Answer:
        start, end = _whole(query, "created[gte]"), _whole(query, "created[lt]")
        limit, after = _whole(query, "limit", DEFAULT_PAGE), query.get("starting_after", "")
        if not 1 <= limit <= LARGEST_PAGE:
            raise Refused(HTTPStatus.BAD_REQUEST, f"limit must be 1 to {LARGEST_PAGE}, not {limit}")
        if end - start > LONGEST_SPAN:
            raise Refused(HTTPStatus.BAD_REQUEST, "ask for at most 400 days at once")
        if after:
            self._find(after)
        found = list(islice(self.charges.newest_first(start, end, after), limit + 1))
        page = [charge.to_json() for charge in found[:limit]]
        return Answer(HTTPStatus.OK, {"object": "list", "data": page, "has_more": len(found) > limit})

    def _find(self, name: str) -> dict[str, object]:
        try:
            return self.charges.find(name).to_json()
        except KeyError:
            raise Refused(HTTPStatus.NOT_FOUND, f"no such charge: {name}") from None

    def _post(self, key: str, body: str) -> Answer:
        if key in self._remembered:
            first, answer = self._remembered[key]
            if first != body:
                message = "this Idempotency-Key was used for another charge"
                raise Refused(HTTPStatus.CONFLICT, message, "idempotency_error")
            return Answer(answer.status, answer.body, {"Idempotent-Replayed": "true"})
        form = dict(parse_qsl(body))
        amount, currency, customer = _whole(form, "amount"), form.get("currency", ""), form.get("customer", "")
        if amount < 1 or not currency or not customer:
            raise Refused(HTTPStatus.BAD_REQUEST, "a charge needs amount (cents, above 0), currency and customer")
        charge = self.charges.post(int(self.now()), customer, amount, currency, form.get("metadata[order_id]", ""))
        answer = Answer(HTTPStatus.OK, charge.to_json())
        if key:
            self._remembered[key] = (body, answer)
        return answer


def _whole(given: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = given.get(name, "" if default is None else str(default))
    if not _WHOLE.fullmatch(text):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name} must be a whole number of up to 10 digits, not {text!r}")
    return int(text)
