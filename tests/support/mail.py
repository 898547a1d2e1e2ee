"""A mail server on a real socket that keeps what it takes."""

from __future__ import annotations

import mailbox
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mail_server(*, refuses: str = "", sent: Path | None = None) -> Iterator[tuple[int, list[str]]]:
    """A server that takes mails. `refuses`: a command that it says no to; `sent`: a mbox for copies."""
    mails: list[str] = []

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 ready")
            while line := self.rfile.readline().decode().strip():
                word = line.split(" ", 1)[0].upper()
                if word == refuses:
                    self._say("550 no" if refuses != "DATA" else "451 later")
                elif word == "DATA":
                    self._say("354 go")
                    text = []
                    while (part := self.rfile.readline().decode()) and part.rstrip("\r\n") != ".":
                        text.append(part.rstrip("\r\n"))
                    if not part:  # the sender was killed: half a mail is not taken
                        return
                    mails.append("\n".join(text))
                    if sent is not None:
                        box = mailbox.mbox(sent)
                        box.add(mails[-1])
                        box.close()
                    self._say("250 taken")
                elif word == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 ok")

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_address[1], mails
        server.shutdown()
