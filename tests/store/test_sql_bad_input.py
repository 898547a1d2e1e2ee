"""What a database refuses: a sentence that says what to do, nothing changed, and never the password."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from pyspark.sql import types as T

from tests.store import databases
from tests.store.databases import COLUMNS, FIRST, columns
from tests.support import servers
from twice import InsertOnly, Merge, Overwrite, Table, Whole
from twice.config import StoreConfig
from twice.errors import (
    ConfigError,
    EnvironmentProblem,
    PermanentError,
    SchemaRefused,
    StoreRefused,
    TransientError,
)
from twice.store.sql import database
from twice.store.sql.database import open_database
from twice.store.sql.schema import bookkeeping, checks, tables
from twice.store.sql.write import publishing

ROW = [(FIRST, 1, "a")]


def settings(**options) -> StoreConfig:
    return StoreConfig("serving", "sql", options)


def reached(url: str) -> database.Database:
    found = open_database(settings(url=url), servers.Path())
    with found.look():
        return found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "its url is missing"),
        ({"url": "postgresql//u:p@ss5ecret"}, "its url is missing or cannot be read"),
        ({"url": "sqlite://"}, "needs a file"),
        ({"url": "sqlite:///:memory:"}, "needs a file"),
        ({"url": "sqlite:///file:x?mode=ro&uri=true"}, "needs a file"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path, options, said):
    with pytest.raises(ConfigError, match=said) as found:
        open_database(settings(**options), tmp_path)
    assert "ss5ecret" not in str(found.value)


def test_a_database_without_its_driver_is_named(tmp_path):
    with pytest.raises(EnvironmentProblem, match="driver for this database is not installed"):
        open_database(settings(url="oracle+nodriver://u:s3cret@host/x"), tmp_path)


def test_a_relative_file_lies_below_the_configuration(tmp_path):
    assert open_database(settings(url="sqlite:///sub/x.db"), tmp_path).url.database == str(tmp_path / "sub" / "x.db")


def test_a_wrong_password_is_refused_and_never_printed(postgres):
    url = postgres.url_of("postgres", password="wr0ng-p@ss")
    with pytest.raises(StoreRefused, match="user or password was not accepted") as found:
        reached(url)
    assert "wr0ng" not in str(found.value) + repr(found.value)
    assert "wr0ng" not in repr(open_database(settings(url=url), servers.Path()))


def test_an_unknown_database_is_refused(postgres):
    with pytest.raises(StoreRefused, match="does not exist") as found:
        reached(postgres.url_of("no_such_database"))
    assert servers.PASSWORD not in str(found.value)


def test_an_unreachable_server_is_a_transient_error(postgres):
    with pytest.raises(TransientError) as found:
        reached("postgresql://ana:s3cret@127.0.0.1:1/x")
    assert "s3cret" not in str(found.value)
    assert "run it again" in found.value.next_step


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "serving.db").write_bytes(b"this is no database" * 100)
    place = databases.sqlite_place(tmp_path)
    with pytest.raises(StoreRefused, match="not a SQLite database"):
        checks.check(place.database, place.table())


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    found = open_database(settings(url="sqlite:///no/such/folder/x.db"), tmp_path)
    with pytest.raises(StoreRefused, match="cannot be opened"), found.look():
        pass


def test_a_namespace_that_sqlite_does_not_have_is_refused(tmp_path):
    place = databases.sqlite_place(tmp_path)
    with pytest.raises(StoreRefused, match="only the namespace main") as found:
        checks.check(place.database, Table("serving.mart.x", key=["id"], write=Whole()))
    assert found.value.next_step == "write serving.main.x"
    with pytest.raises(StoreRefused, match="has one namespace"):
        checks.check(place.database, Table("serving.main.mart.x", key=["id"], write=Whole()))


def test_a_missing_schema_is_refused(pg):
    with pytest.raises(StoreRefused, match='has no schema ma"rt') as found:
        checks.check(pg.database, Table('serving.`ma"rt`.x', key=["id"], write=Whole()))
    assert found.value.next_step.startswith('CREATE SCHEMA "ma""rt"')


def test_a_view_is_refused(place):
    place.sql("create view mart as select 1 as id")
    with pytest.raises(StoreRefused, match="is a view"):
        checks.check(place.database, place.table())


def test_missing_rights_are_named_as_the_grant_to_run(pg, postgres):
    table = pg.table()
    pg.publish(pg.staged(table, 1, ROW))
    pg.sql("create user \"guest user\" password 'guest'")
    url = sa.make_url(pg.database.url).set(username="guest user", password="guest")
    guest = databases.postgres_place(url.render_as_string(hide_password=False))
    with pytest.raises(StoreRefused, match="may not write it") as found:
        checks.check(guest.database, table)
    assert found.value.next_step == 'GRANT CREATE ON SCHEMA "public" TO "guest user"'
    pg.sql(found.value.next_step)
    with pytest.raises(StoreRefused, match="may not write it") as found:
        checks.check(guest.database, table)
    assert found.value.next_step == 'GRANT SELECT, INSERT, UPDATE, DELETE ON "public"."mart" TO "guest user"'
    pg.sql(found.value.next_step)
    with pytest.raises(StoreRefused, match=r"twice_(tables|claims|partitions)") as found:
        checks.check(guest.database, table)
    while True:
        pg.sql(found.value.next_step)
        try:
            checks.check(guest.database, table)
            break
        except StoreRefused as refused:
            found.value.next_step = refused.next_step
    guest.publish(guest.staged(table, 2, ROW))
    pg.sql('drop owned by "guest user"')
    pg.sql('drop user "guest user"')


@pytest.mark.parametrize("write", [Overwrite(), Whole()], ids=["overwrite", "whole"])
def test_a_foreign_key_that_blocks_the_delete_is_named_before_anything_is_staged(pg, write):
    contract = {"write": write} if isinstance(write, Overwrite) else {"write": write, "partition": None}
    table = pg.table(**contract)
    tables.prepare(pg.database, table, COLUMNS)
    key = "d, id" if isinstance(write, Overwrite) else "id"
    pg.sql(f"create table child (d date, id bigint, constraint to_mart foreign key ({key}) references mart ({key}))")
    with pytest.raises(StoreRefused, match="foreign key to_mart of child") as found:
        checks.check(pg.database, table)
    assert pg.left() == []
    pg.sql(found.value.next_step.split(" (for")[0])
    checks.check(pg.database, table)


def test_a_deferred_foreign_key_lets_a_row_be_written_anew_and_refuses_its_loss(pg):
    table = pg.table()
    pg.publish(pg.staged(table, 1, [(FIRST, 1, "a"), (FIRST, 2, "b")]))
    pg.sql("create table child (d date, id bigint, foreign key (d, id) references mart deferrable initially deferred)")
    pg.sql("insert into child values ('2026-04-25', 1)")
    pg.publish(pg.staged(table, 2, [(FIRST, 1, "anew")]))
    with pytest.raises(SchemaRefused, match="constraint child_d_id_fkey"):
        pg.publish(pg.staged(table, 3, [(FIRST, 2, "b")]))
    assert pg.rows(table, "name") == [("anew",)]


def test_a_foreign_key_of_sqlite_is_noticed(tmp_path):
    place = databases.sqlite_place(tmp_path)
    table = place.table()
    tables.prepare(place.database, table, COLUMNS)
    place.sql("create table child (id integer references mart (id))")
    with pytest.raises(StoreRefused, match='foreign key of "child"'):
        checks.check(place.database, table)
    checks.check(place.database, place.table(partition=None, key=["d", "id"], write=InsertOnly()))


def test_a_table_whose_entry_was_left_by_a_lost_run_is_dropped_again_if_nothing_is_published(place):
    # Given the entry of a run whose table was dropped by another one while it prepared to write it
    table = place.table()
    bookkeeping.ensure(place.database, table.id)
    # When the next run creates the table, and its attempt publishes nothing
    tables.prepare(place.database, table, COLUMNS)
    tables.drop_unpublished(place.database, table.id)
    # Then no empty table stays, where the database can drop one safely
    with place.database.look() as connection:
        assert bool(place.database.columns(connection, table.id)) == (place.database.dialect == "other")


def test_another_primary_key_is_refused_with_the_statement_to_run(place):
    place.sql("create table mart (d date not null, id bigint not null, name text, primary key (id))")
    with pytest.raises(SchemaRefused, match="has the primary key id, but its contract says d, id") as found:
        checks.check(place.database, place.table())
    if place.database.dialect == "postgres":
        place.sql(found.value.next_step.split("; or")[0])
        checks.check(place.database, place.table())


def test_a_table_without_primary_key_is_refused(place):
    place.sql("create table mart (d date, id bigint, name text)")
    with pytest.raises(SchemaRefused, match="has no primary key"):
        tables.prepare(place.database, place.table(), COLUMNS)
    assert place.rows(place.table()) == []


def test_the_order_of_the_primary_key_does_not_matter(place):
    place.sql("create table mart (d date not null, id bigint not null, name text, primary key (id, d))")
    place.publish(place.staged(place.table(), 1, ROW))
    assert place.rows(place.table()) == [("2026-04-25", 1, "a")]


def test_rows_that_were_there_before_twice_came_are_replaced(place):
    place.sql("create table mart (d date not null, id bigint not null, name text, primary key (id, d))")
    place.sql("insert into mart values ('2026-04-25', 9, 'old'), ('2026-05-01', 9, 'kept')")
    staged = place.staged(place.table(), 1, ROW)
    assert next(iter(staged.base_files.values())).startswith("found:1:")
    place.publish(staged)
    assert place.rows(place.table(), "name") == [("a",), ("kept",)]


def test_another_type_is_refused(pg):
    pg.sql("create table mart (d date not null, id integer not null, name text, primary key (id, d))")
    with pytest.raises(SchemaRefused, match="column id is integer, but the step returns bigint") as found:
        tables.prepare(pg.database, pg.table(), COLUMNS)
    pg.sql(found.value.next_step.removeprefix("cast it in the step, or "))
    tables.prepare(pg.database, pg.table(), COLUMNS)


def test_a_changed_type_of_a_published_column_is_refused(place):
    place.publish(place.staged(place.table(), 1, ROW))
    with pytest.raises(SchemaRefused, match="column name"):
        tables.prepare(place.database, place.table(), columns(d=T.DateType(), id=T.LongType(), name=T.DoubleType()))


def test_new_columns_are_added_and_lost_ones_refused(place):
    table = place.table()
    place.publish(place.staged(table, 1, ROW))
    wider = columns(d=T.DateType(), id=T.LongType(), name=T.StringType(), more=T.StringType())
    place.publish(place.staged(table, 2, [(FIRST, 2, "b", "x")], schema=wider))
    assert place.rows(table, "id, more") == [(2, "x")]
    with pytest.raises(SchemaRefused, match="has the column more, which the step no longer returns"):
        tables.prepare(place.database, table, COLUMNS)


def test_a_column_from_a_refused_attempt_may_go_away_again(place):
    table = place.table()
    place.publish(place.staged(table, 1, ROW))
    wider = columns(d=T.DateType(), id=T.LongType(), name=T.StringType(), more=T.StringType())
    place.staged(table, 2, [(FIRST, 2, "b", "x")], schema=wider)
    publishing.fence(place.database, table.id, 2)
    place.publish(place.staged(table, 3, [(FIRST, 3, "c")]))
    assert place.rows(table, "id, more") == [(3, None)]


def test_types_without_an_exact_place_are_refused_by_name(place):
    for kind, said in [
        (T.DayTimeIntervalType(), "interval"),
        (T.MapType(T.LongType(), T.StringType()), "keys of JSON are strings"),
        (T.StructType([T.StructField("x", T.CalendarIntervalType())]), "interval"),
    ]:
        with pytest.raises(SchemaRefused, match=f"column odd.*{said}"):
            tables.prepare(place.database, place.table(), columns(d=T.DateType(), id=T.LongType(), odd=kind))
    assert not place.left()


def test_names_that_postgres_would_cut_off_are_refused(pg):
    with pytest.raises(StoreRefused, match="more than 63 bytes"):
        tables.prepare(pg.database, pg.table("é" * 32), COLUMNS)
    with pytest.raises(SchemaRefused, match="more than 63 bytes"):
        tables.prepare(pg.database, pg.table(), columns(d=T.DateType(), id=T.LongType(), **{"x" * 64: T.StringType()}))


def test_a_lock_of_somebody_else_is_waited_for_and_then_a_transient_error(place):
    if place.database.dialect == "other":
        place.database.dialect = "postgres"
    again = type(place.database)("serving", place.database.url, lock_seconds=1)
    table = place.table()
    staged = place.staged(table, 1, ROW)
    here = databases.SqlDatabase(again, place.space)
    held, done = threading.Event(), threading.Event()

    def hold():
        with place.database.engine.connect() as connection:
            connection.execution_options(twice_write=True)
            with connection.begin():
                connection.exec_driver_sql("insert into mart (d, id, name) values ('2026-07-01', 5, 'theirs')")
                held.set()
                done.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(10)
    try:
        with pytest.raises(TransientError, match="another transaction holds a lock"):
            here.publish(staged)
    finally:
        done.set()
        other.join()
    assert place.rows(table, "name") == [("theirs",)]
    assert here.publish(staged) == "1"


def test_a_value_that_does_not_fit_names_its_column_and_not_the_value(pg):
    pg.sql("create table mart (d date not null, id bigint not null, name varchar(3), primary key (d, id))")
    staged = pg.opened(pg.table(), 1)

    def copy_it():
        with pg.database.settled() as connection:
            driver = connection.connection.driver_connection
            with driver.cursor() as cursor, cursor.copy("copy twice_stage_1_mart from stdin with (format csv)") as copy:
                copy.write(b'2026-04-25,1,"a private name"\n')

    with pytest.raises(SchemaRefused, match="column name") as found:
        copy_it()
    assert "private" not in str(found.value)
    assert staged.base == "0"
    assert pg.rows(pg.table()) == []


def test_a_trigger_that_swallows_rows_is_found_out(pg):
    table = pg.table()
    tables.prepare(pg.database, table, COLUMNS)
    pg.sql("create function swallow() returns trigger language plpgsql as 'begin return null; end'")
    pg.sql("create trigger t before insert on mart for each row execute function swallow()")
    with pytest.raises(TransientError, match="the table took 0"):
        pg.publish(pg.staged(table, 1, ROW))


def test_a_check_of_the_table_refuses_the_publish_by_name(pg):
    table = pg.table()
    tables.prepare(pg.database, table, COLUMNS)
    pg.sql("alter table mart add constraint short_names check (length(name) < 2)")
    with pytest.raises(PermanentError, match="constraint short_names") as found:
        pg.publish(pg.staged(table, 1, [(FIRST, 1, "far too long")]))
    assert "far too long" not in str(found.value)
    assert pg.rows(table) == []


def test_a_merge_key_without_partition_is_the_primary_key(pg):
    table = pg.table(partition=None, key=["id"], write=Merge(version="d"))
    tables.prepare(pg.database, table, COLUMNS)
    with pg.database.look() as connection:
        assert sa.inspect(connection).get_pk_constraint("mart")["constrained_columns"] == ["id"]
