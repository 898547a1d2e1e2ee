"""A real ledger in every kind of database, a clock that stands still, and days to talk about."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import quote

import pytest

from twice.ledger import InputRecord, ManualClock, Output, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 4, 25, 10, tzinfo=timezone.utc))


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def schema_url(postgres):
    """Make URLs of ledgers that are not there yet, in one Postgres database; their schemas have odd names."""
    database = postgres.database()
    return lambda: f"{database}?schema=" + quote(f'led"ger.é \\{next(_numbers)}', safe="")


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request):
    return request.param


@pytest.fixture
def new_url(kind, request, quick_dir):
    """Make URLs of ledgers that are not there yet."""
    if kind == "postgres":
        return request.getfixturevalue("schema_url")
    return lambda: f"sqlite:///{quick_dir}/{next(_numbers)}.db"


@pytest.fixture
def ledger(new_url, clock):
    return open_ledger(new_url(), clock=clock)


@pytest.fixture
def sqlite_ledger(tmp_path, clock):
    return open_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=clock)


@pytest.fixture
def quick_dir():
    """A directory in memory where there is one: many commits without a disk's fsync."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def day():
    """Make the scope of the n-th day of 2026, with dimensions if given."""

    def scope(number: int, days: int = 1, **dimensions: str) -> Scope:
        start = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=number - 1)
        return Scope.of(Window(start, start + timedelta(days=days)), dimensions)

    return scope


@pytest.fixture
def made():
    """Make an output of a table for a scope."""

    def output(table: str, scope: Scope, rows: int = 1, **changes: object) -> Output:
        values: dict[str, object] = {
            "digest": f"digest-{rows}",
            "files": "files-1",
            "version": "100",
            "pipeline": "shop",
            "step": "revenue",
            "code": "code-1",
            "inputs": (InputRecord("orders", "lake.raw", "window", "7", {"2026-01-01": "abc"}),),
        }
        return Output(table, scope, rows, **(values | changes))  # type: ignore[arg-type]

    return output


@pytest.fixture
def work(ledger):
    """Start a run and an attempt, claim, bind and prepare: all that comes before the publish."""

    def begin(table, outputs, *, ttl=MINUTE, prepare=True):
        scopes = [output.scope for output in outputs]
        run = ledger.runs.start("shop", scopes[0])
        attempt = ledger.attempts.start(run, "revenue", table, 1, scopes[0], code="code-1")
        claim = ledger.leases.claim(table, scopes, ttl=ttl, run=run)
        ledger.leases.bind(attempt, claim, base_version="99", inputs=outputs[0].inputs)
        if prepare:
            ledger.outputs.prepare(claim, attempt, outputs)
        return run, attempt, claim

    return begin
