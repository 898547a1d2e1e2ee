from __future__ import annotations

import sqlite3
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from twice.errors import LedgerError, UsageError
from twice.ledger import open_ledger
from twice.ledger.db.schema import metadata

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
T = "lake.core.fct_orders"


def counts(ledger):
    with ledger.database.read() as connection:
        return {
            table.name: connection.scalar(sa.select(sa.func.count()).select_from(table))
            for table in metadata.sorted_tables
        }


@pytest.fixture
def lived(ledger, clock, day, made, work):
    """A ledger with an old history, an open old lease, and a young run."""
    for rows in (1, 2):
        run, attempt, claim = work(T, [made(T, day(1), rows=rows)])
        ledger.outputs.record(claim, attempt, [made(T, day(1), rows=rows)])
        ledger.runs.finish(run, "done")
    orphan = work(T, [made(T, day(2))])
    clock.advance(100 * DAY)
    run, attempt, claim = work(T, [made(T, day(3), rows=3)])
    ledger.outputs.record(claim, attempt, [made(T, day(3), rows=3)])
    ledger.runs.finish(run, "done")
    return orphan


def test_prune_removes_what_is_old_and_closed(ledger, clock, day, lived):
    before, tables = counts(ledger), ledger.outputs.list(T)
    shown = ledger.admin.prune(50 * DAY, dry_run=True)
    assert counts(ledger) == before
    report = ledger.admin.prune(50 * DAY)
    assert (report.runs, report.attempts, report.outputs, report.claims) == (2, 2, 1, 2)
    assert shown.to_json() == report.to_json() | {"dry_run": True}
    # Current outputs, the open lease with its run, and the young run are there.
    assert ledger.outputs.list(T) == tables
    orphan_run, orphan_attempt, orphan_claim = lived
    assert [lease.token for lease in ledger.leases.list()] == [orphan_claim.token]
    assert ledger.runs.get(orphan_run).attempts[0].id == orphan_attempt
    assert len(ledger.runs.list()) == 2
    # And what the orphan had prepared can still be adopted.
    (left,) = ledger.leases.claim(T, [day(2)], ttl=MINUTE).abandoned
    ledger.leases.settle(left, landed=True)
    assert len(ledger.outputs.list(T)) == 3


def test_tokens_go_on_after_everything_was_pruned(ledger, clock, day, lived):
    ledger.leases.settle(ledger.leases.take_over(T, 3), landed=False)
    clock.advance(DAY)
    ledger.admin.prune(timedelta(0))
    left = counts(ledger)
    assert (left["claims"], left["runs"], left["attempts"], left["outputs"]) == (0, 0, 0, 2)
    assert [output.rows for output in ledger.outputs.list(T)] == [2, 3]
    assert ledger.leases.claim(T, [day(1)], ttl=MINUTE).token == 5
    run = ledger.runs.start("shop", day(1))
    assert ledger.attempts.start(run, "s", T, 1, day(1), code="c") == 5


def test_prune_works_in_batches(ledger, clock, day):
    for _ in range(5):
        ledger.runs.finish(ledger.runs.start("shop", day(1)), "done")
    clock.advance(DAY)
    assert ledger.admin.prune(timedelta(0), batch=2).runs == 5


def test_a_negative_keep_is_refused(ledger):
    with pytest.raises(UsageError):
        ledger.admin.prune(-DAY)


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_backup_is_a_whole_ledger(ledger, clock, day, lived, tmp_path):
    copy = tmp_path / "backups" / "april.db"
    ledger.admin.backup(copy)
    again = open_ledger(f"sqlite:///{copy}", clock=clock, create=False)
    assert again.outputs.list(T) == ledger.outputs.list(T)
    assert again.runs.list() == ledger.runs.list()
    assert again.leases.list() == ledger.leases.list()
    assert [path.name for path in copy.parent.iterdir()] == ["april.db"]


def test_a_backup_overwrites_nothing(sqlite_ledger, tmp_path):
    ledger = sqlite_ledger
    (tmp_path / "precious").write_text("keep me")
    with pytest.raises(UsageError, match="already exists"):
        ledger.admin.backup(tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == "keep me"
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot be written"):
        ledger.admin.backup(tmp_path / "file" / "backup.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "ledger.db", "precious"]


def test_a_backup_is_consistent_while_others_write(quick_dir, day):
    ledger = open_ledger(f"sqlite:///{quick_dir}/ledger.db")
    stop = threading.Event()

    def write():
        while not stop.is_set():
            run = ledger.runs.start("shop", day(1))
            ledger.attempts.start(run, "s", T, 1, day(1), code="c")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            ledger.admin.backup(quick_dir / f"{number}.db")
    finally:
        stop.set()
        writer.join()
    for number in range(5):
        connection = sqlite3.connect(quick_dir / f"{number}.db")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()
