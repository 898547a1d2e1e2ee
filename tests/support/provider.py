"""A provider on a real socket: it carries out what it is sent, remembers keys for a while, and counts."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Provider:
    """What the receiver saw. `trouble` is taken from the front, one word per call.

    `500`, `400`, `429`: that status, and nothing is carried out; `late`: carried out, but the connection ends without
    an answer; `stored 500`: the key's answer is a 500 for ever.
    """

    honours_keys: bool = True
    # Whether answers repeat what was sent.
    echoes: bool = False
    remembers: float = 3600.0
    compares: bool = True
    trouble: list[str] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    payloads: list[Any] = field(default_factory=list)
    calls: int = 0
    url: str = ""
    _keys: dict[str, tuple[float, int, bytes, bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self) -> None:
        """Begin again, with nothing carried out and no key known."""
        with self._lock:
            self.made.clear()
            self.payloads.clear()
            self._keys.clear()

    def answer(self, key: str, body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        """Carry out a call; None: it was, but the answer is lost."""
        with self._lock:
            self.calls += 1
            known = self._keys.get(key) if self.honours_keys else None
            if known and time.monotonic() - known[0] < self.remembers:
                if self.compares and known[2] != body:
                    return 422, b'{"error":"this key came with another body"}', {}
                return known[1], known[3], {"Idempotent-Replayed": "true"}
            trouble = self.trouble.pop(0) if self.trouble else ""
            said = {"you sent": json.loads(body)} if self.echoes else {}
            if trouble in ("500", "400", "429", "503"):
                return int(trouble), json.dumps({"error": "trouble", **said}).encode(), {"Retry-After": "0"}
            status, answer = 200, json.dumps({"number": len(self.payloads) + 1, **said}).encode()
            if trouble == "stored 500":
                status, answer = 500, b'{"error":"stored"}'
            else:
                self.made[key] += 1
                self.payloads.append(json.loads(body))
            self._keys[key] = (time.monotonic(), status, body, answer)
            return None if trouble == "late" else (status, answer, {})


class _Server(ThreadingHTTPServer):
    # Callers that come at the same time wait for their turn; of five that wait the next ones would be dropped.
    request_queue_size = 256


@contextmanager
def provider(**how: Any) -> Iterator[Provider]:
    """Serve a provider: POST carries something out, GET and HEAD /KEY tell whether it was, GET /history lists all."""
    found = Provider(**how)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:  # the caller was killed while it sent: half a request is not carried out
                self.close_connection = True
                return
            answer = found.answer(self.headers.get("Idempotency-Key") or self.headers.get("X-Mark") or "", body)
            if answer is None:
                self.close_connection = True
                return
            self._reply(*answer)

        def do_HEAD(self) -> None:
            there = found.made.get(self.path.rsplit("/", 1)[-1], 0)
            self._reply(200 if there else 404, b"", {})

        def do_GET(self) -> None:
            if self.path == "/history":
                self._reply(200, json.dumps(found.payloads).encode(), {})
                return
            key = self.path.rsplit("/", 1)[-1]
            there = found.made.get(key, 0)
            self._reply(200 if there else 404, json.dumps({"key": key, "made": there}).encode(), {})

        def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/calls"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
