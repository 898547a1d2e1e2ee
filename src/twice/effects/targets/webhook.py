"""A webhook in the manner of Slack: JSON by POST, and the receiver ignores idempotency keys."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from twice.effects.calls import Answer, Rejected
from twice.errors import DefinitionError

_LONGEST = 1_000


@dataclass(frozen=True)
class Webhook:
    """A URL that takes a message. It is a secret: read it from the environment.

    `marker`, such as "ref {key}", is added to the text as a last line, so that the message can be found in the channel.
    """

    url: str = field(repr=False)
    marker: str = ""
    honours_keys = False

    def __post_init__(self) -> None:
        if self.marker and "{key}" not in self.marker:
            raise DefinitionError(f"Webhook(marker={self.marker!r}) must have {{key}} in it")
        if not str(self.url).startswith(("http://", "https://")):
            raise DefinitionError("Webhook(url=…) must begin with http:// or https://")

    def send(self, payload: Any, *, key: str, timeout: float) -> Answer:
        """Post a message; a text becomes {"text": …}. The key is also sent in a header, for the receiver's logs."""
        message = {"text": payload} if isinstance(payload, str) else payload
        if self.marker:
            if not isinstance(message, dict) or not isinstance(message.get("text"), str):
                raise Rejected('a message with a marker needs {"text": …}', unchanged="nothing was sent")
            message = message | {"text": f"{message['text']}\n{self.marker.replace('{key}', key)}"}
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.url,
            data=json.dumps(message).encode(),
            headers={"Content-Type": "application/json", "X-Idempotency-Key": key},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
            return Answer({"status": response.status, "text": response.read(_LONGEST).decode(errors="replace")})
