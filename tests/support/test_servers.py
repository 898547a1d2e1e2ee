"""The servers that the tests start are what the tests believe them to be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

ROOT = Path(__file__).parents[2]


def test_the_server_asks_for_the_password(postgres):
    wrong = sa.make_url(postgres.url).set(password="no").render_as_string(hide_password=False)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_every_database_is_fresh(postgres, postgres_database):
    postgres.psql("create table kept (n int)", postgres_database)
    other = postgres.database()
    assert postgres.psql("select count(*) from pg_tables where tablename = 'kept'", postgres_database) == "1"
    assert postgres.psql("select count(*) from pg_tables where tablename = 'kept'", other) == "0"


def test_the_pooler_hands_one_connection_to_many_clients(pgbouncer, postgres_database):
    url = pgbouncer.through(postgres_database)
    with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url, autocommit=True) as two:
        one.execute("begin")
        mine = one.execute("select pg_backend_pid()").fetchone()
        assert two.execute("select pg_backend_pid()").fetchone() != mine
        one.execute("commit")
        two.execute("begin")
        assert two.execute("select pg_backend_pid()").fetchone() == mine


@pytest.mark.crash
def test_a_server_goes_with_a_killed_owner():
    code = """
import time
from tests.support import servers
server = servers.PostgresServer()
server.start()
print(server.url, server.folder, flush=True)
time.sleep(99)
"""
    owner = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    url, folder = owner.stdout.readline().split()
    psycopg.connect(url).close()
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    end = time.monotonic() + 20
    while (Path(folder) / "data" / "postmaster.pid").exists() and time.monotonic() < end:
        time.sleep(0.05)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    shutil.rmtree(folder)
