"""Ask a provider by HTTP whether it knows a key."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from twice.errors import DefinitionError

_NOT_THERE = (404, 410)


def http_get(url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 10.0) -> Callable[[str, Any], Any]:
    """Return a reconcile function: GET of a URL with {key} in it; 404 and 410 mean that the call was not made."""
    _require_key(url, "http_get")

    def look(key: str, _payload: Any) -> Any:
        text = _ask("GET", _at(url, key), headers, timeout)
        return None if text is None else _answer(text)

    return look


def http_head(
    url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 10.0
) -> Callable[[str, Any], Any]:
    """Return a reconcile function: HEAD of an object whose URL has {key} in it; 404 means that it was not written."""
    _require_key(url, "http_head")

    def look(key: str, _payload: Any) -> Any:
        place = _at(url, key)
        return None if _ask("HEAD", place, headers, timeout) is None else {"found": place}

    return look


def http_contains(
    url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 10.0
) -> Callable[[str, Any], Any]:
    """Return a reconcile function: GET of a list of messages, such as a channel's history, that carry their key.

    A list without the key means that the call was not made, so it must reach back far enough.
    """
    if not url.startswith(("http://", "https://")):
        raise DefinitionError(f"http_contains({url!r}) must begin with http:// or https://")

    def look(key: str, _payload: Any) -> Any:
        text = _ask("GET", url, headers, timeout)
        if text is None:
            raise LookupError(f"there is nothing at {url}")
        answer = _answer(text)
        if isinstance(answer, dict) and answer.get("ok") is False:  # Slack says so with status 200
            raise LookupError(f"{url} answers: {text[:200]}")
        return {"found": key} if key in text else None

    return look


def _require_key(url: str, name: str) -> None:
    if "{key}" not in url or not url.startswith(("http://", "https://")):
        raise DefinitionError(f"{name}({url!r}) must be a URL with {{key}} in it")


def _at(url: str, key: str) -> str:
    return url.replace("{key}", urllib.parse.quote(key, safe=""))


def _ask(method: str, url: str, headers: Mapping[str, str] | None, timeout: float) -> str | None:
    """Return what is there; None if nothing is."""
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
            return str(response.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        if error.code in _NOT_THERE:
            return None
        raise


def _answer(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {"text": text[:1_000]}
