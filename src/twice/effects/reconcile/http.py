"""Ask a provider by GET whether it knows a key."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from twice.errors import DefinitionError


def http_get(url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 10.0) -> Callable[[str, Any], Any]:
    """Return a reconcile function: GET of a URL with {key} in it; 404 and 410 say that the call was not made.

    Also for objects in a store with HTTP: the object exists, or it does not.
    """
    if "{key}" not in url or not url.startswith(("http://", "https://")):
        raise DefinitionError(f"http_get({url!r}) must be a URL with {{key}} in it")

    def look(key: str, _payload: Any) -> Any:
        place = url.replace("{key}", urllib.parse.quote(key, safe=""))
        request = urllib.request.Request(place, headers=dict(headers or {}))  # noqa: S310 - the scheme was checked
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
                text = response.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise
        try:
            return json.loads(text) if text else {}
        except ValueError:
            return {"text": text[:1_000]}

    return look
