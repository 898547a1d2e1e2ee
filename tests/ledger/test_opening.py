from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.ledgers import put_back
from twice.errors import LedgerBusy, LedgerError, TransientError, UsageError
from twice.ledger import NewChunk, find_ledger, open_ledger
from twice.ledger.db.database import insert_new
from twice.ledger.db.migrate import SCRIPTS
from twice.ledger.db.schema import REVISIONS, VERSION_TABLE, metadata, tokens
from twice.model.scopes import Scope
from twice.redaction import redact

READ_ONLY = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def test_a_new_ledger_gets_its_directory_and_its_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger("sqlite:///.twice/led ger'%.db")
    monkeypatch.chdir("/")
    ledger.runs.start("shop", Scope(None))
    assert (tmp_path / ".twice" / "led ger'%.db").stat().st_size > 0
    assert len(open_ledger(f"sqlite:///{tmp_path}/.twice/led ger'%.db", create=False).runs.list()) == 1


def test_the_file_is_kept_as_safely_as_sqlite_can(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
    ledger = open_ledger(f"sqlite:///{path}")
    with ledger.database.read() as connection:
        values = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    assert values == ["delete", 2, 1, 30000]


def test_migrations_lead_to_the_tables_that_the_code_expects(ledger):
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    script = ScriptDirectory.from_config(config)
    assert tuple(item.revision for item in reversed(list(script.walk_revisions()))) == REVISIONS
    with ledger.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []


def test_an_older_ledger_keeps_its_runs_and_learns_what_new_ones_are_made_with(new_url):
    url, day = new_url(), Scope(None)
    old = open_ledger(url)
    run = old.runs.start("shop", day)
    put_back(old, "0004")
    ledger = open_ledger(url)
    assert ledger.runs.get(run).environment == {}
    new = ledger.runs.start("shop", day, environment={"commit": "c0ffee"})
    assert ledger.runs.get(new).environment == {"commit": "c0ffee"}


def test_a_backfill_of_an_older_ledger_continues_where_it_was(new_url, day):
    url = new_url()
    old = open_ledger(url)
    minute = timedelta(minutes=1)
    backfill = old.backfills.start("shop", day(1), ["lake.a.t"], request={}, code={}, parallel=1, ttl=minute)
    old.backfills.chunks.lay_out(backfill, 1, "facts", [NewChunk(day(1), 3), NewChunk(day(2), 3)], {"step": "facts"})
    taken = old.backfills.chunks.take(backfill, check=True)
    put_back(old, "0005")
    with old.database.read() as connection:
        assert {"stage", "solo"} < {column["name"] for column in sa.inspect(connection).get_columns("chunks")}
    ledger = open_ledger(url)
    assert ledger.backfills.get(backfill).step_index == 1
    (first, second) = ledger.backfills.chunks.list(backfill, step_index=1)
    assert (first, first.spot_check, second.spot_check) == (taken, True, False)
    assert ledger.backfills.chunks.finish(first, "done", rows=3, compared=True)
    assert ledger.backfills.chunks.take(backfill, check=True).id == second.id


def test_an_up_to_date_ledger_opens_without_alembic_and_without_spark(sqlite_ledger, tmp_path):
    code = (
        f"from twice.ledger import open_ledger; import sys; open_ledger('sqlite:///{tmp_path}/ledger.db').runs.list();"
        "print([name for name in ('alembic', 'pyspark', 'twice.store') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def refused(url, kind=LedgerError, **options):
    with pytest.raises(kind) as error:
        open_ledger(url, **options)
    assert error.value.next_step
    return str(error.value)


def test_nothing_there_and_nothing_to_create(tmp_path):
    assert "there is no ledger at" in refused(f"sqlite:///{tmp_path}/x/ledger.db", create=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    assert "there is no ledger at" in refused(f"sqlite:///{tmp_path}/empty.db", create=False)
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_ledger_that_could_not_be_created_there_is_not_a_project_that_never_ran(tmp_path):
    (tmp_path / "file").touch()
    for url in (f"sqlite:///{tmp_path}/file/ledger.db", f"sqlite:///{tmp_path}/file/deeper/ledger.db"):
        with pytest.raises(LedgerError, match=f"cannot be opened: {tmp_path}/file is not a directory"):
            find_ledger(url)
    assert find_ledger(f"sqlite:///{tmp_path}/new/deeper/ledger.db") is None
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


@READ_ONLY
def test_a_ledger_in_a_folder_that_may_not_be_written_is_not_a_project_that_never_ran(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(LedgerError, match="locked is not writable"):
        find_ledger(f"sqlite:///{tmp_path}/locked/ledger.db")


def test_a_ledger_of_a_newer_version_is_left_alone(sqlite_ledger, tmp_path):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    before = path.read_bytes()
    text = refused(f"sqlite:///{path}")
    assert "was written by a newer version of twice" in text
    assert "upgrade" in text
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, but long enough" * 40, b"x", b"\0" * 5000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path, content):
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    text = refused(f"sqlite:///{path}")
    assert "is not a ledger" in text
    assert str(path) in text
    assert path.read_bytes() == content
    assert [item.name for item in tmp_path.iterdir()] == ["ledger.db"]


def test_a_database_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE iceberg_tables (x)")
    before = path.read_bytes()
    text = refused(f"sqlite:///{path}")
    assert "something else" in text
    assert "iceberg_tables" in text
    assert path.read_bytes() == before


def test_a_damaged_ledger_says_so(sqlite_ledger, tmp_path):
    path = tmp_path / "ledger.db"
    content = path.read_bytes()
    path.write_bytes(content[:5000] + b"\xff" * (len(content) - 5000))
    with pytest.raises(LedgerError, match=r"damaged|not a ledger"):
        open_ledger(f"sqlite:///{path}").runs.list()


def test_a_place_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("regular")
    text = refused(f"sqlite:///{tmp_path}/file/below/ledger.db")
    assert "cannot be opened" in text
    assert f"{tmp_path}/file/below/ledger.db" in text
    assert "is a directory" in refused(f"sqlite:///{tmp_path}")


@READ_ONLY
def test_a_read_only_directory(tmp_path):
    place = tmp_path / "closed"
    place.mkdir(mode=0o555)
    assert "cannot be opened" in refused(f"sqlite:///{place}/ledger.db")


@READ_ONLY
def test_a_read_only_ledger_can_be_read(sqlite_ledger, tmp_path):
    (tmp_path / "ledger.db").chmod(0o444)
    again = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    assert again.runs.list() == []
    with pytest.raises(LedgerError, match="read-only"):
        again.runs.start("shop", Scope(None))


def test_a_removed_ledger_says_so(sqlite_ledger, tmp_path):
    (tmp_path / "ledger.db").unlink()
    with pytest.raises(LedgerError, match="removed or replaced"):
        sqlite_ledger.runs.list()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory",
        "mysql://ana:geheim@db/ledger",
        "no url with geheim",
        "sqlite://ana:geheim@host/ledger.db",
    ],
)
def test_urls_that_are_no_ledger_are_refused_without_their_password(url):
    text = refused(url, UsageError)
    assert "sqlite:///path/to/ledger.db" in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ana:geheim@db:5432/ledger",
        "could not connect to postgresql+psycopg://ana:ge@heim@db/ledger now",
        "jdbc:postgresql://db/x?user=ana&password=geheim&ssl=true",
        "host=db Password=geheim",
        "http://:geheim@proxy",
    ],
)
def test_passwords_are_redacted(text, sqlite_ledger):
    ledger = sqlite_ledger
    assert "heim" not in redact(text)
    run = ledger.runs.start("shop", Scope(None), command=text)
    ledger.runs.finish(run, "failed", error=text)
    assert "heim" not in str(ledger.runs.get(run))
    assert "heim" not in Path(ledger.url.removeprefix("sqlite:///")).read_bytes().decode("latin-1")


def test_a_ledger_that_stays_locked_is_a_transient_error(tmp_path):
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db", busy_seconds=0.05)
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerBusy, match="is busy") as busy:
            ledger.runs.start("shop", Scope(None))
    assert isinstance(busy.value, TransientError)
    assert isinstance(busy.value, LedgerError)
    assert busy.value.exit_code == 75
    assert isinstance(pickle.loads(pickle.dumps(busy.value)), LedgerBusy)
    ledger.runs.start("shop", Scope(None))


@pytest.mark.parametrize("url", ["postgresql://ana:p@ss:w0rd@host/db", "postgresql://ana:s3cr@w0rd@host/db"])
def test_a_password_with_an_at_sign_is_not_taken_for_a_host_and_shown(url):
    with pytest.raises(UsageError) as refused:
        open_ledger(url)
    assert "w0rd" not in str(refused.value)


def test_a_row_that_is_there_is_known_to_be_there(ledger):
    with ledger.database.write() as connection:
        row = {"table_name": "lake.a.t", "highest": 7}
        assert [insert_new(connection, tokens, row) for _ in range(2)] == [True, False]
