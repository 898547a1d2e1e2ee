"""The receivers that count for other tests: half a request, as a killed sender leaves it, is not carried out."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tests.support.mail import mail_server
from tests.support.provider import provider


def send_and_hang_up(port: int, text: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):  # until the server ends the connection, too
            pass


def test_a_provider_does_not_carry_out_half_a_request():
    with provider() as receiver:
        port = urlsplit(receiver.url).port
        head = b"POST /calls HTTP/1.1\r\nHost: here\r\nIdempotency-Key: k1\r\nContent-Length: 12\r\n\r\n"
        send_and_hang_up(port, head)
        send_and_hang_up(port, head + b'{"to":')
        assert (receiver.calls, dict(receiver.made)) == (0, {})
        send_and_hang_up(port, head + b'{"to":"ana"}')
        assert dict(receiver.made) == {"k1": 1}


def test_a_mail_server_does_not_take_half_a_mail():
    with mail_server() as (port, mails):
        send_and_hang_up(port, b"HELO here\r\nDATA\r\nSubject: half")
        assert mails == []
        send_and_hang_up(port, b"HELO here\r\nDATA\r\nSubject: whole\r\n.\r\nQUIT\r\n")
        assert mails == ["Subject: whole"]
