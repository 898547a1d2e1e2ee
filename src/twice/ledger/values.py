"""What goes into the ledger: owners, claims, inputs and outputs."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from twice.model.scopes import Scope

# Linux gives the process space of the machine itself, outside all containers, this fixed number.
_FIRST_SPACE = "pid:[4026531836]"


@dataclass(frozen=True)
class Owner:
    """The process that holds a claim or started a run."""

    host: str
    pid: int

    @classmethod
    def here(cls) -> Owner:
        """Return this process: a process id is unique on one machine, since its boot, in one container."""
        pid = os.getpid()
        return cls(_host(pid), pid)

    @property
    def is_gone(self) -> bool:
        """Whether it was a process of this machine and has ended; of other machines nothing is known."""
        if self.host != Owner.here().host:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid})"

    def to_json(self) -> dict[str, object]:
        return {"host": self.host, "pid": self.pid}


@functools.lru_cache(maxsize=1)
def _host(_pid: int) -> str:
    """Name the machine, its start and the container of this process."""
    try:
        started = "/" + Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        started, space = "", _FIRST_SPACE
    inside = "" if space == _FIRST_SPACE else "/" + space.removeprefix("pid:")
    return socket.gethostname() + started + inside


@dataclass(frozen=True)
class Abandoned:
    """An earlier claim that ended without settling: only the store can show whether it landed."""

    table: str
    token: int
    run: str | None
    scopes: tuple[Scope, ...]
    attempt: int | None


@dataclass(frozen=True)
class Claim:
    """The right to publish some scopes of a table, until another run takes it over."""

    table: str
    token: int
    scopes: tuple[Scope, ...]
    owner: Owner
    run: str | None
    expires_at: datetime
    ttl: timedelta
    abandoned: tuple[Abandoned, ...] = ()


@dataclass(frozen=True)
class InputRecord:
    """One pinned input: which version was read, and what each of its partitions held."""

    name: str
    table: str
    mode: str
    version: str | None
    partitions: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "table": self.table,
            "mode": self.mode,
            "version": self.version,
            "partitions": dict(self.partitions),
        }


@dataclass(frozen=True)
class Output:
    """What one partition of a table holds since a publish; no window means the whole table.

    `run`, `token` and `recorded_at` are filled in when an output is read back.
    """

    table: str
    scope: Scope
    rows: int
    digest: str
    files: str
    version: str | None
    pipeline: str
    step: str
    code: str
    inputs: tuple[InputRecord, ...]
    run: str | None = None
    token: int | None = None
    recorded_at: datetime | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "table": self.table,
            "scope": self.scope.to_json(),
            "rows": self.rows,
            "digest": self.digest,
            "files": self.files,
            "version": self.version,
            "pipeline": self.pipeline,
            "step": self.step,
            "code": self.code,
            "inputs": [record.to_json() for record in self.inputs],
            "run": self.run,
            "token": self.token,
            "recorded_at": self.recorded_at.isoformat() if self.recorded_at else None,
        }
