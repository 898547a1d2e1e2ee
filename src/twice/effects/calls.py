"""One call and what is known about it afterwards: made, not made, or unknown."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twice.engine.attempt.http_errors import http_status
from twice.engine.attempt.retries import is_transient, wait_hint
from twice.errors import PermanentError, TransientError, TwiceError, UsageError

# A longer answer is not stored.
_LARGEST = 64_000
# The server refused before it did anything.
_REFUSED = frozenset({429})
_NAMES = frozenset(
    {"ConnectError", "ConnectTimeout", "NewConnectionError", "ConnectTimeoutError", "NameResolutionError"}
)


class NotSent(TransientError):
    """The call was certainly not made; the same call may succeed later."""


class Rejected(PermanentError):
    """The receiver refused the call, and would refuse it again; nothing happened there."""


class OutcomeUnknown(PermanentError):
    """The call may have been made: there is no answer. `final`: a retry would not give one either."""

    def __init__(self, message: str, *, final: bool = False, **more: str) -> None:
        super().__init__(message, **more)
        self.final = final


class KeyUsed(PermanentError):
    """The receiver knows the key with another payload: the earlier call was made."""


@dataclass(frozen=True)
class Answer:
    """What a receiver answered; `note` is what it reported about the key."""

    response: Any
    note: str = ""


@dataclass(frozen=True)
class Ended:
    """How one call ended."""

    kind: str  # made, not_sent, rejected, unknown, stored_error, key_used
    response: str = ""
    error: str = ""
    note: str = ""
    wait: float | None = None


def call(function: Callable[[], Any]) -> Ended:
    """Make a call and classify what it raised; only Ctrl-C and the like are raised again."""
    try:
        answer = function()
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is judged here
        return judge(error)
    return made(answer)


def made(answer: object) -> Ended:
    """Describe a call that was made; an answer that cannot be stored is not, with a note."""
    note = answer.note if isinstance(answer, Answer) else ""
    response = answer.response if isinstance(answer, Answer) else answer
    try:
        return Ended("made", response_text(response), note=note)
    except UsageError as error:  # the call was made: only its answer is lost
        return Ended("made", json.dumps(None), note=f"{note}; {error.message}".removeprefix("; "))


def judge(error: Exception) -> Ended:
    """Return what an error means for the call."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, KeyUsed):
        return Ended("key_used", error=text, note=text)
    if isinstance(error, OutcomeUnknown):
        return Ended("stored_error" if error.final else "unknown", error=text, wait=wait_hint(error))
    if isinstance(error, NotSent) or _never_left(error):
        return Ended("not_sent", error=text, wait=wait_hint(error))
    status = http_status(error)
    if status in _REFUSED:
        return Ended("not_sent", error=text, wait=wait_hint(error))
    if isinstance(error, Rejected) or (status is not None and 400 <= status < 500 and not is_transient(error)):
        return Ended("rejected", error=text)
    return Ended("unknown", error=text, wait=wait_hint(error))


def without_text(error: Exception) -> TwiceError:
    """Return an error that means the same for the call, without any text of the receiver."""
    ended, status = judge(error), http_status(error)
    text = f"HTTP {status}" if status is not None else type(error).__name__
    if ended.kind == "key_used":
        return KeyUsed(text)
    if ended.kind in ("unknown", "stored_error"):
        return OutcomeUnknown(text, final=ended.kind == "stored_error")
    return NotSent(text) if ended.kind == "not_sent" else Rejected(text)


def _never_left(error: BaseException) -> bool:
    """Return whether no connection was made: nothing can have happened. The context of an error does not count."""
    link: object = error
    for _ in range(10):
        if isinstance(link, ConnectionRefusedError | socket.gaierror) or type(link).__name__ in _NAMES:
            return True
        wrapped = getattr(link, "__cause__", None) or getattr(link, "reason", None)
        args = getattr(link, "args", ())
        link = wrapped or (args[0] if args and isinstance(args[0], BaseException) else None)
        if not isinstance(link, BaseException):
            return False
    return False


def response_text(value: object) -> str:
    """Write an answer as JSON text; refuse what is not JSON, or too much to store."""
    return _text(value, "the answer")


def payload_text(value: object) -> str:
    """Write a payload as JSON text, the same text for the same payload."""
    return _text(value, "the payload", largest=16 * _LARGEST)


def _text(value: object, what: str, largest: int = _LARGEST) -> str:
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{what} is not JSON: {error}", next_step="return text, numbers, true, false, null, lists and dictionaries"
        ) from None
    if len(text) > largest:
        raise UsageError(f"{what} has {len(text):,} characters of JSON, more than the {largest:,} that are stored")
    return text
