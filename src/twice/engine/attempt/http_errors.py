"""Which errors of Python's HTTP clients are transient: a request that may succeed when it is sent again."""

from __future__ import annotations

import re
import ssl

_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_CLIENTS = frozenset({"requests", "httpx", "urllib3", "urllib"})
# Base classes: the connection failed, or it ended before the answer was complete.
_TRANSIENT = frozenset(
    {
        "ConnectionError", "Timeout", "ChunkedEncodingError", "RetryError",  # requests
        "TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError",  # httpx
        "TimeoutError", "ProtocolError", "NewConnectionError", "MaxRetryError", "PoolError",  # urllib3
        "IncompleteRead", "InvalidChunkLength",
        "ContentTooShortError",  # urllib
    }
)  # fmt: skip
# Some of them are derived from a class above: the next request meets the same certificate, address or proxy setting.
_PERMANENT = frozenset({"SSLError", "InvalidProxyURL", "LocationValueError", "LocalProtocolError", "HostChangedError"})

_WRONG_URL = re.compile(r"unknown url type|no host given|local ?host")


def is_transient_http(error: BaseException) -> bool | None:
    """Return whether a request may succeed when it is sent again; None, if the error is not one of a request."""
    status = http_status(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    names = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.split(".")[0] in _CLIENTS}
    if not names:
        return None
    reason = getattr(error, "reason", None)  # of MaxRetryError and URLError
    if isinstance(reason, Exception) and (found := is_transient_http(reason)) is not None:
        return found
    return not names & _PERMANENT and not isinstance(reason, ssl.SSLError) and _connection_failed(error, names, reason)


def _connection_failed(error: BaseException, names: set[str], reason: object) -> bool:
    if "ResponseError" in names:  # urllib3 gave up: "too many 503 error responses", "too many redirects"
        return "redirect" not in str(error)
    if "URLError" in names and "ContentTooShortError" not in names:
        return not isinstance(reason, FileNotFoundError | PermissionError) and not _WRONG_URL.search(str(reason))
    return bool(names & _TRANSIENT)


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries, whichever library it comes from."""
    response = getattr(error, "response", None)
    for holder in (response, error):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 100 <= value < 600:
                return value
    return None
