"""A chat channel on this machine, for the shop's daily post: python -m examples.chat --port 8500.

POST /hook      {"text": …} is posted, as often as it is sent: a webhook knows no idempotency keys
GET  /history   every message, the oldest first
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Channel(ThreadingHTTPServer):
    """The channel: what was posted, in order."""

    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.posts: list[str] = []

    @property
    def url(self) -> str:
        """Where the channel is."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Channel

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.server.posts.append(str(json.loads(body)["text"]))
        except (ValueError, KeyError, TypeError):
            self._answer(400, "a message needs a text")
            return
        self._answer(200, "ok")

    def do_GET(self) -> None:
        if self.path == "/history":
            self._answer(200, json.dumps(self.server.posts))
        else:
            self._answer(404, "there is only /history")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def listening(port: int = 0) -> Iterator[Channel]:
    """Serve a channel while the block runs."""
    with Channel(port) as channel:
        thread = threading.Thread(target=channel.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield channel
        finally:
            channel.shutdown()
            thread.join()


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C; the first line that is printed is the address."""
    parser = argparse.ArgumentParser(prog="python -m examples.chat", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port (default)")
    with Channel(parser.parse_args(arguments).port) as channel:
        print(channel.url, flush=True)
        try:
            channel.serve_forever()
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
