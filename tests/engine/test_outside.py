"""A step that is only looked at reaches nothing outside: no connection is opened, no process is started."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import FunctionType

import pytest

from twice.engine.attempt.outside import nothing_outside
from twice.engine.chunks.dry_call import Stopped

PORT = 0  # of the service, where it is called


class Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.called.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def service():
    server = HTTPServer(("127.0.0.1", 0), Service)
    server.called = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def looked_at(function) -> list[str]:
    found: list[str] = []
    with nothing_outside(found), contextlib.suppress(Stopped):
        function()
    return found


def fetch(service) -> None:
    urllib.request.urlopen(f"http://127.0.0.1:{service.server_port}/rates").read()


def test_a_request_is_not_sent_and_is_named(service):
    assert looked_at(lambda: fetch(service)) == [
        f"opens a connection while it is called: 127.0.0.1:{service.server_port}"
    ]
    assert service.called == []


def test_a_step_that_catches_every_exception_is_stopped_all_the_same(service):
    def careless() -> None:
        try:
            fetch(service)
        except Exception:
            service.called.append("went on")

    assert len(looked_at(careless)) == 1
    assert service.called == []


def test_a_name_is_not_even_looked_up():
    def named() -> None:
        urllib.request.urlopen("https://api.example.invalid/rates")

    assert looked_at(named) == ["opens a connection while it is called: api.example.invalid:443"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_request_of_a_thread_that_the_step_starts_is_not_sent(service):
    def threaded() -> None:
        thread = threading.Thread(target=fetch, args=[service])
        thread.start()
        thread.join()

    assert len(looked_at(threaded)) == 1
    assert service.called == []


def test_threads_that_the_step_did_not_start_work_on(service):
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait(10)
        fetch(service)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def step() -> None:
        go.set()
        done.wait(10)

    assert looked_at(step) == []
    thread.join()
    assert service.called == ["/rates"]


def connect() -> None:
    socket.create_connection(("127.0.0.1", PORT)).close()


def test_spark_itself_is_reached(service):
    inside = {"__name__": "pyspark.util", "socket": socket, "PORT": service.server_port}
    of_spark = FunctionType(connect.__code__, inside)
    assert looked_at(of_spark) == []
    outside = FunctionType(connect.__code__, inside | {"__name__": "jobs.rates"})
    assert len(looked_at(outside)) == 1


def test_a_datagram_is_not_sent():
    def sent() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.sendto(b"orders:1|c", ("127.0.0.1", 8125))

    assert looked_at(sent) == ["opens a connection while it is called: 127.0.0.1:8125"]


@pytest.mark.parametrize("start", [subprocess.run, lambda words: os.posix_spawnp(words[0], words, os.environ)])
def test_a_process_is_not_started(start, tmp_path):
    (found,) = looked_at(lambda: start(["touch", str(tmp_path / "made")]))
    assert found.startswith("starts a process while it is called: touch")
    assert not (tmp_path / "made").exists()


def test_afterwards_everything_is_as_before(service):
    looked_at(lambda: fetch(service))
    fetch(service)
    assert service.called == ["/rates"]
