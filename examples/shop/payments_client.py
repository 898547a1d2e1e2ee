"""A polite client of the payments provider: paged, paced, and patient for a moment.

A page that fails is requested again here, after the wait that the server names, so that one error on page
70 does not cost the 69 before it. What lasts longer is raised: twice knows an HTTP 429 or 5xx and a lost
connection as a transient error, and retries the step later.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


@dataclass
class PaymentsClient:
    """Where the provider is, and how often it may be called."""

    url: str
    key: str = field(default="", repr=False)
    per_second: float = 20.0
    page: int = 100
    tries: int = 4
    patience: float = 10.0  # seconds that are waited here for one page; more is left to twice
    timeout: float = 10.0
    _next: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"the payments provider's address must begin with http:// or https://, not {self.url!r}")

    @classmethod
    def from_environment(cls) -> PaymentsClient:
        """Take the address and the key from the environment."""
        if not os.environ.get("PAYMENTS_API_URL"):
            raise ValueError("PAYMENTS_API_URL is not set: export the address of the payments provider")
        return cls(os.environ["PAYMENTS_API_URL"], os.environ.get("PAYMENTS_API_KEY", ""))

    def charges(self, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
        """Yield the charges created in [start, end): one page in memory at a time."""
        query = {"created[gte]": int(start.timestamp()), "created[lt]": int(end.timestamp()), "limit": self.page}
        after: dict[str, object] = {}
        while True:
            found = self._get("/charges", {**query, **after})
            yield from found["data"]
            if not found["has_more"]:
                return
            after = {"starting_after": found["data"][-1]["id"]}

    def charge(self, customer: str, cents: int, currency: str, order: int, *, key: str) -> dict[str, Any]:
        """Take money for an order; the provider carries out a key once. Errors are raised, for twice to judge."""
        fields = {"customer": customer, "amount": cents, "currency": currency, "metadata[order_id]": order}
        return self._ask(f"{self.url}/charges", urlencode(fields).encode(), {"Idempotency-Key": key})

    def _get(self, path: str, query: Mapping[str, object]) -> dict[str, Any]:
        """Ask for one page, and again after a transient error."""
        tried, waited = 0, 0.0
        while True:
            try:
                return self._ask(f"{self.url}{path}?{urlencode(query)}")
            except (URLError, ConnectionError, TimeoutError) as error:
                tried += 1
                wait = _wait(error, tried)
                waited += wait or 0.0
                if wait is None or tried == self.tries or waited > self.patience:
                    raise
            time.sleep(wait)

    def _ask(self, url: str, form: bytes | None = None, more: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Make one call, not before its turn."""
        pause = self._next - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        self._next = time.monotonic() + 1 / self.per_second
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            with urlopen(Request(url, form, {**headers, **(more or {})}), timeout=self.timeout) as answer:  # noqa: S310 - seen above
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPException as error:
            raise ConnectionError(f"the answer was cut off: {error!r}") from error


class ChargeCards:
    """The provider as the receiver of an effect: it gets the same key on every try, and charges once."""

    honours_keys = True

    def send(self, payload: Mapping[str, Any], *, key: str, timeout: float) -> dict[str, Any]:
        """Charge what the payload holds; the address is read now, not when the pipeline is defined."""
        client = replace(PaymentsClient.from_environment(), timeout=timeout)
        charge = client.charge(**payload, key=key)
        return {"charge": charge["id"], "cents": charge["amount"]}


def _wait(error: Exception, tried: int) -> float | None:
    """Return how long to wait before the next try; None: trying again would not help."""
    if not isinstance(error, HTTPError):
        return 0.5 * 2.0**tried
    if error.code not in _TRANSIENT:
        return None
    asked = error.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else 0.5 * 2.0**tried
