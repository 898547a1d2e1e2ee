"""Keeping a step that is called only for its plan from reaching outside: connections and processes are refused.

Python reports both through its audit events, so that it does not matter which library makes them. A client written in C
that opens sockets of its own is not seen, and a connection that is already open is not closed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from twice.engine.chunks.dry_call import Stopped

_CONNECTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_RESOLVES = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
_PROCESSES = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen"}
)
_EVENTS = _CONNECTS | _RESOLVES | _PROCESSES
_START = threading.Thread.start.__code__


@dataclass(eq=False)
class _Refusal:
    """Refuses what one thread, and those that it starts, would do outside; records what that was."""

    found: list[str]
    thread: int = field(default_factory=threading.get_ident)
    started: list[threading.Thread] = field(default_factory=list)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_ours() and not _is_spark():
            self.found.append(_what(event, arguments))
            raise Stopped

    def follow(self, frame: FrameType, event: str, arg: Any, before: Any) -> None:
        """Record the threads that are started; `before` is the profile function that was set before."""
        if event == "call" and frame.f_code is _START and self._is_ours():
            self.started.append(frame.f_locals["self"])
        if before is not None:
            before(frame, event, arg)

    def _is_ours(self) -> bool:
        here = threading.get_ident()
        return here == self.thread or any(one.ident == here and one.is_alive() for one in self.started)


_refusals: list[_Refusal] = []
_installed: list[bool] = []  # a hook stays as long as the process


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _refusals and event in _EVENTS:
        for one in tuple(_refusals):
            one.hear(event, arguments)


@contextmanager
def nothing_outside(found: list[str]) -> Iterator[None]:
    """Stop this thread, and those that it starts, before it reaches outside, and record the call; Spark is inside."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    refusal = _Refusal(found)
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    _refusals.append(refusal)
    # Before Python 3.12 no audit event reports a thread that is started.
    sys.setprofile(lambda frame, event, arg: refusal.follow(frame, event, arg, before))
    threading.setprofile(lambda frame, event, arg: refusal.follow(frame, event, arg, before_in_threads))
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)
        _refusals.remove(refusal)


def _is_spark() -> bool:
    """Return whether PySpark itself talks to its JVM: a thread that is new to it opens a connection."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the documented way to the caller
    while frame is not None and frame.f_globals.get("__name__") in {__name__, "socket"}:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] in {"py4j", "pyspark"}


def _what(event: str, arguments: tuple[Any, ...]) -> str:
    if event in _PROCESSES:
        return f"starts a process while it is called: {_command(arguments)}"
    return f"opens a connection while it is called: {_shown(arguments[-1] if event in _CONNECTS else arguments[:2])}"


def _command(arguments: tuple[Any, ...]) -> str:
    named = arguments[0] if arguments else ""
    return named.decode(errors="replace") if isinstance(named, bytes) else str(named)


def _shown(address: object) -> str:
    if isinstance(address, tuple) and address:
        host, port = address[0], address[1] if len(address) > 1 else None
        host = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
        return f"{host}:{port}" if port else host
    return str(address)
