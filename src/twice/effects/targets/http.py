"""HTTP with an idempotency key: the same key on every try, and what the provider reports about it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twice.effects.calls import Answer, KeyUsed, OutcomeUnknown
from twice.errors import DefinitionError

_REPLAYED = ("Idempotent-Replayed", "Idempotent-Response", "X-Idempotent-Replayed")


@dataclass(frozen=True)
class Http:
    """A provider that takes JSON by POST and honours a key in a header.

    `in_flight` and `mismatch` are the status codes that mean that a call with the same key is under way, and that the
    key came with another body.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key_header: str = "Idempotency-Key"
    method: str = "POST"
    in_flight: tuple[int, ...] = (409,)
    mismatch: tuple[int, ...] = (422,)
    honours_keys = True

    def __post_init__(self) -> None:
        if not str(self.url).startswith(("http://", "https://")):
            raise DefinitionError(f"Http(url={self.url!r}) must begin with http:// or https://")

    def send(self, payload: Any, *, key: str, timeout: float) -> Answer:
        """Send a payload; the type of an error shows whether it was carried out."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.url,
            data=json.dumps(payload).encode(),
            headers={"Content-Type": "application/json", **self.headers, self.key_header: key},
            method=self.method,
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
                return Answer(_body(response.read()), _replay_note(response.headers))
        except urllib.error.HTTPError as error:
            answer = f"HTTP {error.code}{': ' + text if (text := error.read(500).decode(errors='replace')) else ''}"
            if error.code in self.mismatch:
                raise KeyUsed(f"the provider knows this key with another payload ({answer})") from error
            if error.code in self.in_flight:
                raise OutcomeUnknown(f"the provider is still at work on an earlier call ({answer})") from error
            if error.code >= 500:
                raise OutcomeUnknown(answer, final=bool(_replay_note(error.headers))) from error
            raise


def _body(data: bytes) -> Any:
    text = data.decode(errors="replace")
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text[:10_000]


def _replay_note(headers: Any) -> str:
    found = next((name for name in _REPLAYED if str(headers.get(name, "")).lower() == "true"), "")
    return f"the provider answered with what it stored ({found})" if found else ""
