"""A ledger on a Postgres server: how it is reached, what it refuses, whose clock counts, and what a lock protects."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.servers import PASSWORD, USER
from twice.errors import EnvironmentProblem, LedgerBusy, LedgerError, ScopeHeld, UsageError
from twice.ledger import find_ledger, open_ledger, revision_at
from twice.ledger.db import postgres_problems
from twice.ledger.db.clock import ServerClock
from twice.ledger.db.postgres import PostgresDatabase
from twice.ledger.db.schema import REVISIONS, VERSION_TABLE, metadata
from twice.ledger.outputs.rows import insert_outputs
from twice.model.scopes import Scope

MINUTE = timedelta(minutes=1)
T = "lake.core.fct_orders"


@pytest.fixture
def url(schema_url):
    return schema_url()


def refused(url, kind=LedgerError, **options):
    """Open what cannot be opened; return the whole message, which never holds the password."""
    with pytest.raises(kind) as error:
        open_ledger(url, **options)
    text = str(error.value)
    assert error.value.next_step
    assert PASSWORD not in text
    assert quote(PASSWORD, safe="") not in text
    return text


@pytest.mark.parametrize("driver", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_the_url_opens_the_same_ledger(postgres_database, driver):
    url = postgres_database.replace("postgresql", driver, 1) + "?sslmode=prefer&application_name=mine"
    run = open_ledger(url).runs.start("shop", Scope(None))
    ledger = open_ledger(postgres_database, create=False)
    assert [found.id for found in ledger.runs.list()] == [run]
    assert ledger.url == postgres_database.replace(quote(PASSWORD, safe=""), "***")
    assert PASSWORD not in repr(ledger)
    with open_ledger(url).database.read() as connection:
        assert connection.scalar(sa.text("select current_setting('application_name')")) == "mine"


def test_two_ledgers_share_a_database_with_an_application(postgres, postgres_database):
    postgres.psql("create table runs (mine int); create table tokens (mine int)", postgres_database)
    one, two = open_ledger(postgres_database), open_ledger(f"{postgres_database}?schema=other")
    one.runs.start("shop", Scope(None))
    assert (len(one.runs.list()), len(two.runs.list())) == (1, 0)
    assert postgres.psql("select count(*) from runs", postgres_database) == "0"
    listed = "select nspname from pg_namespace where nspname in ('twice_ledger', 'other') order by 1"
    assert postgres.psql(listed, postgres_database) == "other\ntwice_ledger"


@settings(max_examples=25, deadline=None)
@given(name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=15))
def test_a_schema_is_quoted_whatever_its_name_is(postgres, name):
    if name.startswith("pg_"):
        name = "x" + name
    database = PostgresDatabase(sa.make_url(f"{postgres.url}?schema={quote(name, safe='')}"))
    assert database.schema == name
    with database.write() as connection:
        database.lock_for_migration(connection)
        connection.execute(sa.text("create table here (n int)"))
        assert database.tables(connection) == {"here"}
        # All of it is undone.
        connection.rollback()


@pytest.mark.parametrize("name", ["x" * 64, "pg_catalog", "a%00b"])
def test_a_schema_that_cannot_be_is_refused(postgres, name):
    assert "schema in the ledger's URL" in refused(f"{postgres.url}?schema={name}", UsageError)


def test_migrations_lead_to_the_tables_that_the_code_expects(url):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with open_ledger(url).database.read() as connection:
        # Reflection looks into the first schema of the path when it is the default one.
        connection.dialect.default_schema_name = connection.scalar(sa.text("select current_schema()"))
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        unsorted = "select count(*) from information_schema.columns where table_schema = current_schema()"
        unsorted += " and data_type in ('text', 'character varying') and collation_name is distinct from 'C'"
        assert connection.scalar(sa.text(f"{unsorted} and table_name <> '{VERSION_TABLE}'")) == 0


def test_nothing_is_made_by_looking(postgres, postgres_database):
    assert find_ledger(postgres_database) is None
    assert revision_at(postgres_database).found is None
    assert "there is no ledger at" in refused(postgres_database, create=False)
    assert postgres.psql("select count(*) from pg_namespace where nspname = 'twice_ledger'", postgres_database) == "0"
    open_ledger(postgres_database)
    assert revision_at(postgres_database).up_to_date


def test_a_newer_ledger_and_a_schema_of_something_else_are_left_alone(postgres, postgres_database):
    postgres.psql('create schema "shop"; create table shop.orders (n int)', postgres_database)
    text = refused(f"{postgres_database}?schema=shop")
    assert "something else: it holds orders" in text
    assert "?schema=NAME" in text
    open_ledger(postgres_database)
    postgres.psql(f"update twice_ledger.{VERSION_TABLE} set version_num = '9999'", postgres_database)
    assert "was written by a newer version of twice" in refused(postgres_database)


def test_a_wrong_password_is_refused_and_never_shown(postgres, pgbouncer):
    wrong = sa.make_url(postgres.url).set(password="wr0ng/geheim").render_as_string(hide_password=False)
    for url in (wrong, pgbouncer.through(wrong), postgres.url_of("postgres", "nobody there")):
        text = refused(url)
        assert "refuses the user" in text
        assert "check user and password" in text
        assert "geheim" not in text


def test_a_missing_database_is_said(postgres, pgbouncer):
    for url in (postgres.url_of("nowhere"), pgbouncer.through(postgres.url_of("nowhere"))):
        assert "has no such database" in refused(url)


@pytest.mark.parametrize("place", ["127.0.0.1:1", "no-such-host.invalid"])
def test_an_unreachable_server_is_a_transient_error(place):
    text = refused(f"postgresql://ana:geheim@{place}/ledger?connect_timeout=2", LedgerBusy)
    assert "cannot be reached" in text
    assert f"postgresql://ana:***@{place}" in text
    assert "geheim" not in text


@pytest.mark.parametrize("option", ["foo=1", "sslmode=maybe", "connect_timeout=soon"])
def test_an_option_that_postgres_does_not_know_is_said(postgres, option):
    assert "does not understand" in refused(f"{postgres.url}?{option}")


def test_another_driver_is_refused(postgres):
    other = postgres.url.replace("postgresql", "postgresql+psycopg2", 1)
    assert "reached with psycopg" in refused(other, UsageError)


def test_without_psycopg_one_is_told_what_to_install():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from twice.ledger import open_ledger\n"
        "open_ledger('postgresql://ana:geheim@127.0.0.1/ledger')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert EnvironmentProblem.__name__ in done.stderr
    assert "pip install 'twice[postgres]'" in done.stderr
    assert "geheim" not in done.stderr


@pytest.fixture
def guest(postgres, postgres_database):
    """The URL of the same database for a user who may do nothing but connect."""
    postgres.execute("drop role if exists guest")
    postgres.execute(f"create role guest login password '{PASSWORD}'")
    yield sa.make_url(postgres_database).set(username="guest").render_as_string(hide_password=False)
    postgres.execute("drop owned by guest", postgres_database)
    postgres.execute("drop role guest")


def test_missing_rights_are_said_with_the_way_to_give_them(postgres, postgres_database, guest):
    text = refused(guest)
    assert "may not use the ledger" in text
    assert 'CREATE SCHEMA "twice_ledger" AUTHORIZATION' in text
    # A schema of its own is all that the user needs.
    postgres.psql("create schema twice_ledger authorization guest", postgres_database)
    open_ledger(guest).runs.start("shop", Scope(None))


def test_a_ledger_of_somebody_else_is_said_to_be_closed_and_not_to_be_gone(postgres, postgres_database, guest):
    open_ledger(postgres_database).runs.start("shop", Scope(None))
    for create in (True, False):
        with pytest.raises(LedgerError, match="may not use the ledger") as error:
            open_ledger(guest, create=create).runs.list()
        assert "permission denied for schema twice_ledger" in str(error.value)


def test_who_may_only_read_can_read(postgres, postgres_database, guest):
    open_ledger(postgres_database).runs.start("shop", Scope(None))
    grant = "grant usage on schema twice_ledger to guest; grant select on all tables in schema twice_ledger to guest"
    postgres.psql(grant, postgres_database)
    reader = open_ledger(guest, create=False)
    assert len(reader.runs.list()) == 1
    with pytest.raises(LedgerError, match="may not use the ledger") as error:
        reader.runs.start("shop", Scope(None))
    assert not isinstance(error.value, LedgerBusy)


def test_a_standby_takes_no_changes(postgres, postgres_database):
    open_ledger(postgres_database)
    name = sa.make_url(postgres_database).database
    postgres.execute(f"alter database {name} set default_transaction_read_only = on")
    ledger = open_ledger(postgres_database)
    with pytest.raises(LedgerError, match="accepts no changes"):
        ledger.runs.start("shop", Scope(None))


def test_a_removed_ledger_says_so(postgres, postgres_database):
    ledger = open_ledger(postgres_database)
    postgres.psql("drop schema twice_ledger cascade", postgres_database)
    with pytest.raises(LedgerError, match="removed or replaced"):
        ledger.runs.list()


def test_a_lost_connection_is_a_transient_error_and_the_next_one_works(postgres, postgres_database):
    ledger = open_ledger(postgres_database)
    name = sa.make_url(postgres_database).database

    def interrupted():
        with ledger.database.write() as connection:
            postgres.psql(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
            connection.execute(sa.text("select 1"))

    with pytest.raises(LedgerBusy, match="connection") as lost:
        interrupted()
    assert lost.value.exit_code == 75
    ledger.runs.start("shop", Scope(None))


def test_a_ledger_that_stays_locked_is_a_transient_error(url, day):
    ledger = open_ledger(url, busy_seconds=0.05)
    claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    with ledger.database.write() as connection:
        connection.execute(sa.text("select * from tokens for update"))
        with pytest.raises(LedgerBusy, match="is busy"):
            ledger.leases.claim(T, [day(2)], ttl=MINUTE)
        # A heartbeat needs no such lock.
        assert ledger.leases.renew(claim, MINUTE)
    assert ledger.leases.claim(T, [day(2)], ttl=MINUTE).token == 2


def test_a_full_server_is_a_transient_error():
    problem = postgres_problems.explain(
        None, 'FATAL: too many connections for role "ana"', "postgresql://db/x", "twice"
    )
    assert isinstance(problem, LedgerBusy)
    problem = postgres_problems.explain("53300", "sorry, too many clients already", "postgresql://db/x", "twice")
    assert isinstance(problem, LedgerBusy)
    problem = postgres_problems.explain("53100", "could not extend file", "postgresql://db/x", "twice")
    assert not isinstance(problem, LedgerBusy)
    assert "free some space" in problem.next_step


def test_an_unknown_problem_is_told_in_the_servers_words():
    problem = postgres_problems.explain("XX000", "cache lookup failed", "postgresql://db/x", "twice")
    assert "cache lookup failed (XX000)" in str(problem)


def test_leases_are_judged_by_the_servers_clock(url, day, monkeypatch):
    ledger = open_ledger(url)
    assert isinstance(ledger.clock, ServerClock)
    # This machine believes that it is another year; nobody asks it.
    monkeypatch.setattr(
        "twice.ledger.db.clock.SystemClock.now", lambda _self: datetime(2031, 1, 1, tzinfo=timezone.utc)
    )
    claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    assert abs(claim.expires_at - MINUTE - datetime.now(timezone.utc)) < MINUTE
    with pytest.raises(ScopeHeld):
        ledger.leases.claim(T, [day(1)], ttl=MINUTE)
    assert ledger.admin.check().ahead < timedelta(days=-365)
    assert abs(ledger.clock.now() - datetime.now(timezone.utc)) < MINUTE


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Pacific/Kiritimati"])
def test_the_servers_time_zone_does_not_matter(postgres, postgres_database, zone):
    postgres.execute(f"alter database {sa.make_url(postgres_database).database} set timezone = '{zone}'")
    assert abs(open_ledger(postgres_database).clock.now() - datetime.now(timezone.utc)) < MINUTE


def test_the_time_is_that_after_the_wait_for_a_lock(url, day):
    ledger = open_ledger(url)
    first = ledger.leases.claim(T, [day(1)], ttl=timedelta(milliseconds=1))
    done = []
    with ledger.database.write() as connection:
        connection.execute(sa.text("select * from tokens for update"))
        waiting = threading.Thread(target=lambda: done.append(ledger.leases.claim(T, [day(1)], ttl=MINUTE)))
        waiting.start()
        _wait_for_lock(connection)
        released = ledger.clock.within(connection)
    waiting.join()
    assert done[0].expires_at >= released + MINUTE
    assert [left.token for left in done[0].abandoned] == [first.token]


def test_who_renews_while_another_claims_is_not_robbed(url, day):
    ledger = open_ledger(url)
    claim = ledger.leases.claim(T, [day(1)], ttl=timedelta(milliseconds=1))
    seen = []

    def rob():
        try:
            seen.append(ledger.leases.claim(T, [day(1)], ttl=MINUTE))
        except ScopeHeld as held:
            seen.append(held)

    # The renewal is not committed yet when the other one looks at the expired lease.
    with ledger.database.write() as connection:
        later = (ledger.clock.within(connection) + MINUTE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        connection.execute(sa.text(f"update claims set expires_at = '{later}'"))
        robber = threading.Thread(target=rob)
        robber.start()
        _wait_for_lock(connection)
    robber.join()
    assert isinstance(seen[0], ScopeHeld)
    assert ledger.leases.renew(claim, MINUTE)


def test_a_reader_sees_one_state_and_keeps_nobody_waiting(url, day):
    ledger = open_ledger(url)
    with ledger.database.read() as connection:
        count = sa.text("select count(*) from runs")
        assert connection.scalar(count) == 0
        ledger.runs.start("shop", day(1))
        assert connection.scalar(count) == 0
        with pytest.raises(sa.exc.InternalError, match="read-only transaction"):
            connection.execute(sa.text("delete from runs"))
    assert len(ledger.runs.list()) == 1


def test_inputs_that_are_about_to_be_used_are_not_pruned(url, day, made):
    ledger = open_ledger(url)
    run = ledger.runs.start("shop", day(1))
    attempt = ledger.attempts.start(run, "s", T, 1, day(1), code="c")
    claim = ledger.leases.claim(T, [day(1)], ttl=MINUTE, run=run)
    counts = []
    with ledger.database.write() as connection:
        insert_outputs(connection, claim, [made(T, day(1))], "current", ledger.clock.now())
        pruning = threading.Thread(target=lambda: counts.append(ledger.admin.prune(timedelta(days=1)).inputs))
        pruning.start()
        _wait_for_lock(connection)
    pruning.join()
    assert counts == [0]
    assert len(ledger.outputs.list(T)[0].inputs) == 1
    ledger.attempts.finish(attempt, "failed")


def test_a_commit_is_durable_even_where_the_server_is_lax(postgres, postgres_database):
    name = sa.make_url(postgres_database).database
    query = sa.text("select current_setting('synchronous_commit')")
    for setting, taken in (("off", "on"), ("remote_apply", "remote_apply")):
        postgres.execute(f"alter database {name} set synchronous_commit = {setting}")
        with open_ledger(postgres_database).database.write() as connection:
            assert connection.scalar(query) == taken


def test_two_processes_that_settle_and_record_at_once_do_not_collide(url, day, made):
    ledger = open_ledger(url)
    for number in range(5):
        table = f"{T}{number}"
        run = ledger.runs.start("shop", day(1))
        dead = ledger.leases.claim(table, [day(1), day(2)], ttl=timedelta(milliseconds=1), run=run)
        first = ledger.attempts.start(run, "s", table, 1, day(1), code="c")
        ledger.outputs.prepare(dead, first, [made(table, day(1)), made(table, day(2))])
        (left,) = ledger.leases.claim(table, [day(2)], ttl=timedelta(milliseconds=1), run=run).abandoned
        mine = ledger.leases.claim(table, [day(1)], ttl=MINUTE, run=run)
        second = ledger.attempts.start(run, "s", table, 2, day(1), code="c")
        problems = []

        def noted(call, *arguments, problems=problems, **options):
            try:
                call(*arguments, **options)
            except Exception as error:
                problems.append(error)

        threads = [
            threading.Thread(target=noted, args=(ledger.leases.settle, left), kwargs={"landed": True}),
            threading.Thread(target=noted, args=(ledger.outputs.record, mine, second, [made(table, day(1), rows=9)])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        # Whichever came first, the newer publish is what day 1 holds.
        assert [output.rows for output in ledger.outputs.list(table)] == [9, 1]


def test_a_backup_of_a_server_is_its_own_tools_business(url, tmp_path):
    with pytest.raises(LedgerError, match="pg_dump"):
        open_ledger(url).admin.backup(tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_revisions_are_the_same_everywhere(url):
    open_ledger(url)
    assert revision_at(url).found == REVISIONS[-1]
    assert revision_at(url).to_json()["up_to_date"] is True
    assert USER in revision_at(url).url
    assert PASSWORD not in revision_at(url).url


def _wait_for_lock(connection):
    """Return once another transaction waits for what this one holds."""
    while not connection.scalar(sa.text("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")):
        connection.execute(sa.text("select pg_sleep(0.01)"))
        # Each look is a fresh one.
        connection.execute(sa.text("select pg_stat_clear_snapshot()"))
