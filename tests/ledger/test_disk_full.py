"""A full disk changes nothing and says so."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import sqlalchemy as sa

from twice.errors import LedgerError
from twice.ledger import open_ledger
from twice.model.scopes import Scope


def test_no_room_for_another_page(tmp_path):
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    kept = ledger.runs.start("shop", Scope(None))
    before = (tmp_path / "ledger.db").read_bytes()

    def limit(connection, _record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sa.event.listen(ledger.database.engine, "connect", limit)
    with pytest.raises(LedgerError) as full:
        ledger.runs.start("shop", Scope(None), command="x" * 100_000)
    text = str(full.value)
    assert "is full" in text
    assert "nothing was recorded" in text
    assert "free some space" in text
    assert (tmp_path / "ledger.db").read_bytes() == before
    assert [run.id for run in ledger.runs.list()] == [kept]


FULL = """
import pathlib, sys
from twice.errors import LedgerError
from twice.ledger import open_ledger
from twice.model.scopes import Scope
place = pathlib.Path(sys.argv[1])
ledger = open_ledger(f"sqlite:///{place}/ledger.db")
run = ledger.runs.start("shop", Scope(None))
with (place / "filler").open("wb", buffering=0) as filler:
    for size in (4096, 1):
        try:
            while True:
                filler.write(b"x" * size)
        except OSError:
            pass
try:
    ledger.runs.start("shop", Scope(None), command="x" * 50_000)
except LedgerError as error:
    print(error.message)
try:
    open_ledger(f"sqlite:///{place}/other.db")
except LedgerError as error:
    print(error.message)
(place / "filler").unlink()
assert [found.id for found in open_ledger(f"sqlite:///{place}/ledger.db").runs.list()] == [run]
open_ledger(f"sqlite:///{place}/other.db").runs.start("shop", Scope(None))
print("intact")
"""


def _private_mounts():
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _private_mounts(), reason="this machine does not let us mount a small disk")
def test_a_disk_that_is_really_full(tmp_path):
    mount = 'mount -t tmpfs -o size=512k none "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, FULL],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first == f"the disk that holds the ledger {tmp_path}/ledger.db is full"
    assert second == f"the disk that holds the ledger {tmp_path}/other.db is full"
    assert last == "intact"
