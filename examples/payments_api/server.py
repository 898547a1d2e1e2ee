"""The provider's HTTP interface, on the standard library only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from examples.payments_api.provider import Answer, Provider, Refused

LARGEST_BODY = 65_536


class Server(ThreadingHTTPServer):
    """The provider, listening on this machine only."""

    daemon_threads = True

    def __init__(self, provider: Provider, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.provider = provider

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def listening(provider: Provider, port: int = 0) -> Iterator[Server]:
    """Serve in a thread for as long as the block lasts."""
    with Server(provider, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a GET."""
        self._reply("")

    def do_POST(self) -> None:
        """Answer a POST."""
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            self.close_connection = True
            self._send(Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {LARGEST_BODY} bytes").answer)
            return
        self._reply(self.rfile.read(int(length)).decode(errors="replace"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Log nothing: /stats reports the calls."""

    def _reply(self, body: str) -> None:
        server = cast("Server", self.server)
        self._send(server.provider.answer(self.command, self.path, self.headers, body))

    def _send(self, answer: Answer) -> None:
        content = json.dumps(answer.body).encode()
        try:
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):  # a caller that did not wait for a slow answer
            self.close_connection = True
