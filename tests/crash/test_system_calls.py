"""Killed at the n-th system call that changes a file: the SQLite ledger, and a publish into a SQLite database.

No hook in the product: strace ends the process at the call.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.crash import embedded, tally
from tests.support.project import FULL
from tests.support.strace import needs_strace, traced
from twice.ledger import open_ledger
from twice.store.sql.schema import bookkeeping
from twice.store.sql.write import publishing

CALLS = "pwrite64,write,ftruncate,fsync,fdatasync,unlink,unlinkat,rename,renameat,renameat2"
# Of every so many system calls one; the full matrix takes them all.
STEP = {"serving": 1 if FULL else 17, "ledger": 1 if FULL else 45}

pytestmark = [pytest.mark.crash, needs_strace]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Copy a folder with version 1 of a ledger and a database; the copies are there to be destroyed."""
    first, numbers = tmp_path_factory.mktemp("first"), itertools.count(1)
    embedded.serving(first, 1)
    embedded.ledger(first, 1)
    return lambda: Path(shutil.copytree(first, first.with_name(f"{first.name}-copy{next(numbers)}")))


def bring(act: str, folder: Path, inject: str) -> tuple[int | None, str]:
    """Bring version 2 with strace meddling; return the exit code and what the process said at its end."""
    file = folder / embedded.FILES[act]
    paths = [part for path in (file, f"{file}-journal") for part in ("-P", str(path))]
    return traced(folder, ["-e", f"trace={CALLS}", *paths, "-e", inject], getattr(embedded, act), folder, 2)


def rows(folder: Path) -> list[tuple[int, int]]:
    with sqlite3.connect(folder / embedded.FILES["serving"]) as connection:
        return connection.execute("select n, count(*) from t group by n").fetchall()


def intact(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def recovered_serving(folder: Path) -> None:
    """See the old day or the new one, never another; then recover as the engine does, and bring version 3."""
    intact(folder / embedded.FILES["serving"])
    seen = rows(folder)
    assert seen in ([(1, 51)], [(2, 52)])
    there = embedded.database(folder)
    landed = publishing.fence(there, embedded.TABLE.id, 2)
    assert landed == ("2" if seen == [(2, 52)] else None)
    assert rows(folder) == seen
    embedded.serving(folder, 3)
    assert rows(folder) == [(3, 53)]
    with there.look() as connection:
        found = bookkeeping.tables_of(there, embedded.TABLE.id)
        assert bookkeeping.read_entry(connection, found, embedded.TABLE.id).version == (3 if landed else 2)
        assert bookkeeping.stage_tokens(connection, embedded.TABLE.id, None) == []
        assert bookkeeping.open_tokens(connection, found, embedded.TABLE.id) == []


def recovered_ledger(folder: Path) -> None:
    """See version 1 or 2, whole; take over what is held, and go on as the next run does."""
    intact(folder / embedded.FILES["ledger"])
    book = open_ledger(f"sqlite:///{folder / embedded.FILES['ledger']}")
    (before,) = book.outputs.list(embedded.TABLE.name)
    assert (before.rows, before.digest, before.files) in ((1, "d1", "f1"), (2, "d2", "f2"))
    held = book.leases.list()
    assert len(held) <= (before.rows == 1)
    for lease in held:
        book.leases.settle(book.leases.take_over(lease.table, lease.token), landed=False)
    assert book.outputs.list(embedded.TABLE.name) == [before]
    embedded.ledger(folder, 3)
    (after,) = book.outputs.list(embedded.TABLE.name)
    assert (after.rows, after.digest, book.leases.list()) == (3, "d3", [])
    assert after.token > before.token


RECOVERED = {"serving": recovered_serving, "ledger": recovered_ledger}


@pytest.mark.parametrize("act", ["serving", "ledger"])
def test_killed_at_any_system_call_that_changes_a_file(copy, act):
    killed, number = 0, 1
    while True:
        folder = copy()
        code, said = bring(act, folder, f"inject={CALLS}:signal=KILL:when={number}")
        if said:  # it ended before it came to so many calls
            assert said == "done: None"
            break
        assert code == -signal.SIGKILL
        RECOVERED[act](folder)
        tally.system_call("sqlite" if act == "serving" else "ledger", number)
        killed, number = killed + 1, number + STEP[act]
        shutil.rmtree(folder)
    assert killed * STEP[act] > 40
    RECOVERED[act](folder)


@pytest.mark.parametrize("act", ["serving", "ledger"])
@pytest.mark.parametrize(
    "inject",
    ["fsync,fdatasync:error=EIO", "pwrite64:error=EIO", "pwrite64:error=ENOSPC"],
    ids=["sync-fails", "write-fails", "disk-full"],
)
def test_a_disk_that_fails_changes_nothing_and_says_so(copy, act, inject):
    for number in range(1, 20) if FULL else (1, 7):
        folder = copy()
        _, said = bring(act, folder, f"inject={inject}:when={number}+")
        if number == 1:
            assert said not in ("", "done: None")
        error = said.strip().splitlines()[-1]
        assert said == "done: None" or "is full" in said or "I/O" in said or "cannot be" in said, said
        assert not error.startswith(("sqlite3.", "sqlalchemy.")), said
        RECOVERED[act](folder)
        shutil.rmtree(folder)
