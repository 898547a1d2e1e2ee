"""Which errors are transient and tried again, and how long to wait.

Transient: lost executors, failed fetches, network and timeouts, SQLSTATE classes 08, 40, 53 and
57P, HTTP 408, 429 and 5xx, lost races, and what a store type names. In a chain of errors, the first that is known to be
transient or permanent decides. Everything else is permanent, in particular any exception that the
step's own function raises, unless it is one of those or declared with `transient=`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from twice.engine.attempt.http_errors import is_transient_http
from twice.errors import LeaseLost, PermanentError, ScopeHeld, TransientError, TwiceError
from twice.store.registry import usable_types

_TRANSIENT_SPARK = (
    r"ExecutorLostFailure|FetchFailed|MetadataFetchFailed|Executor heartbeat timed out|Lost task .*executor"
    r"|java\.net\.(SocketTimeout|Connect|NoRouteToHost|UnknownHost|Socket)Exception"
    r"|java\.util\.concurrent\.TimeoutException|java\.io\.InterruptedIOException|Connection reset|Broken pipe"
    r"|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block .* not found"
    r"|SparkContext was shut down|Job \d+ cancelled because SparkContext"
)
_SQLSTATE = re.compile(r"SQLSTATE:?\s*(08|40|53|57P)\w*")
_NO_SPACE = 28


def is_transient(error: BaseException, declared: tuple[type[BaseException], ...] = ()) -> bool:
    """Return whether the same attempt may succeed later."""
    if isinstance(error, TransientError):
        return True
    if isinstance(error, PermanentError):
        cause = error.__cause__
        return cause is not None and not isinstance(cause, TwiceError) and is_transient(cause, declared)
    if isinstance(error, TwiceError | LeaseLost | ScopeHeld):
        return False
    verdicts = (_verdict(link, declared) for link in _chain(error))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def wait_hint(error: BaseException) -> float | None:
    """Return how long a server asked us to wait (`Retry-After`), in seconds."""
    for link in _chain(error):
        headers = getattr(link, "headers", None) or getattr(getattr(link, "response", None), "headers", None)
        value = headers.get("Retry-After") if headers is not None and hasattr(headers, "get") else None
        if value:
            return _seconds(str(value))
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    seen = 0
    while link is not None and seen < 10:
        yield link
        link, seen = link.__cause__ or link.__context__, seen + 1


def _verdict(error: BaseException, declared: tuple[type[BaseException], ...]) -> bool | None:
    """Return whether one error is transient; None if it alone does not decide."""
    if declared and isinstance(error, declared):
        return True
    http = is_transient_http(error)
    if http is not None:
        return http
    # Py4JNetworkError: Spark's JVM did not answer, or is gone.
    if isinstance(error, ConnectionError | TimeoutError) or type(error).__name__ == "Py4JNetworkError":
        return True
    if _is_java(error):
        text = str(error)
        return True if _is_transient_java(text) or _SQLSTATE.search(text) else None
    state = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
    return True if isinstance(state, str) and state.startswith(("08", "40", "53", "57P")) else None


def _is_transient_java(text: str) -> bool:
    stores = (row.transient_errors for row in usable_types() if row.transient_errors)
    return any(re.search(pattern, text) for pattern in (_TRANSIENT_SPARK, *stores))


def _is_java(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in {"py4j", "pyspark"}


def _seconds(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return max(0.0, until.timestamp() - datetime.fromtimestamp(time.time(), timezone.utc).timestamp())


def is_disk_full(error: BaseException) -> bool:
    """Return whether a disk ran out of space, on the driver or on an executor."""
    return any(
        (isinstance(link, OSError) and link.errno == _NO_SPACE) or "No space left on device" in str(link)
        for link in _chain(error)
    )
