"""Servers that the tests start for themselves: Postgres, and pgbouncer in front of it.

They live in a temporary folder, listen on 127.0.0.1 only, run as an ordinary user (both refuse root), and go when
the process that started them goes, however it goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import sqlalchemy as sa

USER = "twice"
# With what a URL must escape: a password that appears anywhere, escaped or not, is found.
PASSWORD = "p@ss/5ecret"
START_SECONDS = 30
_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/libexec/postgresql*",
)
_libc = ctypes.CDLL(None)


class Missing(RuntimeError):
    """A server's program is not installed."""


def postgres_bin() -> Path:
    """Find the newest Postgres server's programs."""
    on_path = shutil.which("initdb")
    found = [folder for place in _PLACES for folder in Path("/").glob(place[1:]) if (folder / "initdb").exists()]
    if found:
        return max(found, key=lambda folder: [int(part) for part in "".join(_digits(folder)).split()])
    if on_path:
        return Path(on_path).resolve().parent
    raise Missing("no Postgres server is installed here: call scripts/setup-postgres")


def _digits(folder: Path) -> Iterator[str]:
    return (letter if letter.isdigit() else " " for letter in str(folder))


class Process(ABC):
    """A server process in a folder of its own, on a free port; one that refuses root is run as an ordinary user."""

    refuses_root: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"twice-{name}-"))
        self.log = self.folder / "log"
        self.user = _ordinary_user() if self.refuses_root else None
        if self.user:
            shutil.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server serves."""

    def start(self) -> None:
        """Start and wait until it serves; on the same port as before, where there was one."""
        first = not self.port
        for _ in range(5 if first else 1):
            self.port = free_port() if first else self.port
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    self.command(),
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509  # one system call, on what is loaded already
                    **self.as_user(),
                )
            end = time.monotonic() + START_SECONDS
            while self._process.poll() is None and time.monotonic() < end:
                if self.answers():
                    return
                time.sleep(0.02)
            self.stop()
        raise RuntimeError(f"{self.command()[0]} does not start:\n{self.log.read_text()[-2000:]}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop without waiting for clients."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command: str | Path) -> None:
        """Run a program as the server's user; its output is shown when it fails."""
        done = subprocess.run(command, capture_output=True, text=True, **self.as_user())
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")

    def as_user(self) -> dict[str, Any]:
        """Return the arguments that make a subprocess run as the server's user, in its folder."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        common = {"cwd": self.folder, "env": environment | {"HOME": str(self.folder)}, "stdin": subprocess.DEVNULL}
        if self.user is None:
            return common
        return common | {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}


class PostgresServer(Process):
    """A Postgres server with one user, its owner, who has a password."""

    def __init__(self) -> None:
        super().__init__("postgres")
        self.bin = postgres_bin()
        self._numbers = itertools.count(1)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        data = self.folder / "data"
        access = ("--auth=scram-sha-256", f"--username={USER}", f"--pwfile={secret}")
        if self.user:
            shutil.chown(secret, self.user.pw_uid)
        self.run(self.bin / "initdb", "--no-sync", *access, "--encoding=UTF8", "--locale=C", "-D", data)

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            # A server that is killed loses nothing, only a machine that is switched off would.
            "fsync": "off",
            "max_connections": 200,
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.bin / "postgres"), "-D", str(self.folder / "data"), *options]

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=2).close()
            return True
        return False

    @property
    def url(self) -> str:
        """The owner's URL of the database `postgres`, with the password in it."""
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = USER, password: str = PASSWORD) -> str:
        """Return the URL of a database."""
        url = sa.URL.create("postgresql", user, password, "127.0.0.1", self.port, database)
        return url.render_as_string(hide_password=False)

    def database(self) -> str:
        """Create a fresh, empty database; return its URL."""
        name = f"test{next(self._numbers)}"
        self.execute(f"create database {name}")
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self.execute(f'drop database if exists "{sa.make_url(url).database}" with (force)')

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement on its own, outside any transaction; return its rows, if it has any."""
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def psql(self, sql: str, url: str | None = None) -> str:
        """Run SQL with psql; return what it prints, without headers."""
        command = [self.bin / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url or self.url, "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.rstrip("\n")


class Bouncer(Process):
    """A pgbouncer in transaction mode: every transaction may get another of a few connections."""

    def __init__(self, server: PostgresServer, connections: int = 3) -> None:
        super().__init__("pgbouncer")
        self.server = server
        self._connections = connections
        self._program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if self._program is None:
            raise Missing("pgbouncer is not installed here: call scripts/setup-postgres")
        (self.folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n')

    def command(self) -> list[str]:
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": self.folder / "users",
            "pool_mode": "transaction",
            "default_pool_size": self._connections,
            "max_client_conn": 200,
        }
        lines = ["[databases]", f"* = host=127.0.0.1 port={self.server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        file = self.folder / "pgbouncer.ini"
        file.write_text("\n".join(lines) + "\n")
        return [str(self._program), str(file)]

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.through(self.server.url), connect_timeout=2).close()
            return True
        return False

    def through(self, url: str) -> str:
        """Return the URL of a database of the server, through the pooler."""
        return sa.make_url(url).set(port=self.port).render_as_string(hide_password=False)


@contextlib.contextmanager
def running(make: Callable[[], Any]) -> Iterator[Any]:
    """Start a server, and leave nothing of it behind."""
    server = make()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _ordinary_user() -> pwd.struct_passwd | None:
    """Return whom a server runs as when we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Missing("there is no user to run a Postgres server as: neither postgres nor nobody")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    # PR_SET_PDEATHSIG: pytest itself may be killed. Elsewhere than on Linux such a server stays until it is stopped.
    if sys.platform == "linux":
        _libc.prctl(1, signal.SIGINT)
