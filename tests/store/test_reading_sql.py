"""Tables of SQL databases as sources: exact values, one moment, and only the window."""

from __future__ import annotations

import dataclasses
import sqlite3
import string
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg import sql

from tests.support.project import FULL
from tests.support.servers import PASSWORD
from twice import Day, Hour, Overwrite, Pipeline, Table
from twice.config import StoreConfig
from twice.content.filters import happened_in
from twice.engine.attempt.retries import is_transient
from twice.engine.stores import open_store
from twice.errors import Conflict
from twice.model.scopes import Scope
from twice.model.tables import Cut
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.sql.read import reading, splitting

pytestmark = pytest.mark.spark
UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
ACCOUNTS = 400


class SourceDatabase:
    """A Postgres database with a store over it."""

    def __init__(self, url, session):
        self.url, self.session = url, session
        self.config = StoreConfig("pg", "sql", {"url": url})
        self.store = open_store(self.config, None)

    def run(self, statement):
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement)

    def read(self, table):
        return self.store.read(self.session, table, self.store.version(self.session, table))

    def cut(self, table, window, zone=UTC, **dimensions):
        version = self.store.version(self.session, table)
        whole = Cut(window if table.partition else None, None if table.partition else window)
        return self.store.read_cut(self.session, table, version, whole, dimensions, zone)


@pytest.fixture
def pg(postgres_database, spark):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    found = SourceDatabase(postgres_database, session)
    yield found
    found.store.release(session)


@pytest.fixture
def one_row_is_worth_a_task(monkeypatch):
    monkeypatch.setattr(splitting, "WORTH_A_TASK", 1)
    monkeypatch.setattr("pyspark.SparkContext.defaultParallelism", 2)  # as on two cores


def plan(rows):
    return rows._jdf.queryExecution().executedPlan().toString()


def window(start, **length):
    begin = datetime.fromisoformat(start).replace(tzinfo=timezone.utc)
    return Window(begin, begin + timedelta(**(length or {"days": 1})))


def test_every_type_of_postgres_comes_as_it_is(pg):
    pg.run(
        """create type mood as enum ('sad', 'it''s ok');
        create table public.kinds (
            flag boolean, small smallint, medium integer, large bigint, single real, double double precision,
            free numeric, price numeric(12,2), huge numeric(60,2), name text, short varchar(5), padded char(5),
            day date, at timestamptz, local timestamp, local3 timestamp(3), clock time, bytes bytea, doc json,
            binary_doc jsonb, id uuid, feeling mood, span interval, numbers int4range,
            names text[], counts bigint[], prices numeric(10,2)[], days date[], moments timestamptz[], blobs bytea[]);
        insert into public.kinds values (
            true, -32768, -2147483648, 9223372036854775807, 1.5, 'NaN',
            123456789012345678.123456789012345678, 1234567890.12, 123.45, '', 'é漢😀', 'ab',
            '2026-03-29', '2026-10-25 00:30:00.123456+00', '2026-03-29 02:30:00.654321', '1999-12-31 23:59:59.999',
            '12:34:56', '\\x00ff', '{"a": 1}', '{"b":  [1, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
            'it''s ok', '1 day', '[1,5)', array['a', null, '', 'x"y', 'ü,{}'], array[1, null, 9223372036854775807],
            array[1.10, null], array['2026-03-29'::date, null], array['2026-10-25 00:30:00.123456+00'::timestamptz],
            array['\\x00ff'::bytea, null]);
        insert into public.kinds (flag) values (null)"""
    )
    rows = pg.read(Table("pg.public.kinds"))
    micros = "unix_micros(at) as at", "transform(moments, m -> unix_micros(m)) as moments"
    texts = "cast(local as string) as local", "cast(local3 as string) as local3"
    plain = [f"`{name}`" for name in rows.columns if name not in {"at", "moments", "local", "local3"}]
    full, empty = sorted((row.asDict() for row in rows.selectExpr(*plain, *micros, *texts).collect()), key=str)[::-1]
    assert all(value is None for value in empty.values())
    moment = 1792888200123456
    assert str(full.pop("double")) == "nan"
    assert full == {
        "flag": True, "small": -32768, "medium": -2147483648, "large": 9223372036854775807, "single": 1.5,
        "free": Decimal("123456789012345678.123456789012345678"), "price": Decimal("1234567890.12"),
        "huge": "123.45", "name": "", "short": "é漢😀", "padded": "ab", "day": date(2026, 3, 29), "at": moment,
        "local": "2026-03-29 02:30:00.654321", "local3": "1999-12-31 23:59:59.999", "clock": "12:34:56",
        "bytes": bytearray(b"\x00\xff"), "doc": '{"a": 1}', "binary_doc": '{"b": [1, null]}',
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "feeling": "it's ok", "span": "1 day", "numbers": "[1,5)",
        "names": ["a", None, "", 'x"y', "ü,{}"], "counts": [1, None, 9223372036854775807],
        "prices": [Decimal("1.10"), None], "days": [date(2026, 3, 29), None], "moments": [moment],
        "blobs": [bytearray(b"\x00\xff"), None],
    }  # fmt: skip
    kinds = dict(rows.dtypes)
    assert (kinds["at"], kinds["local"], kinds["free"], kinds["price"], kinds["days"]) == (
        "timestamp", "timestamp_ntz", "decimal(38,18)", "decimal(12,2)", "array<date>",
    )  # fmt: skip
    nothing = pg.store.read(pg.session, Table("pg.public.kinds"), None)
    assert (nothing.dtypes, nothing.collect()) == (rows.dtypes, [])


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("numeric", "0.1234567890123456789", "more than 18 decimals"),
        ("numeric", "1e21", "numeric field overflow"),
        ("date", "'infinity'", "infinite"),
        ("timestamptz", "'infinity'", "infinity"),
        ("timestamp", "'-infinity'", "infinity"),
        ("text[]", "array[array['a'], array['b']]", "MALFORMED"),
    ],
)
def test_a_value_that_spark_has_no_place_for_stops_the_read(pg, kind, value, said):
    pg.run(f"create table public.odd (v {kind}); insert into public.odd values ({value})")
    with pytest.raises(Exception, match=said) as stopped:
        pg.read(Table("pg.public.odd")).collect()
    # The value may be personal: it is not shown
    assert "0.123456" not in str(stopped.value)


def test_the_window_reaches_the_database_as_a_condition(pg):
    pg.run(
        "create table public.orders (id bigint, ordered_at timestamptz); insert into public.orders "
        "select n, timestamptz '2026-04-20 00:00:00+00' + n * interval '1 hour' from generate_series(0, 239) n"
    )
    table = Table("pg.public.orders", event_time="ordered_at")
    rows = pg.cut(table, window("2026-04-25"))
    assert "WHERE (\"ordered_at\" >= TIMESTAMPTZ '2026-04-25T00:00:00+00:00'" in plan(rows)
    assert sorted(row.id for row in rows.collect()) == list(range(120, 144))


@pytest.mark.parametrize(
    ("kind", "first"),
    [("timestamptz", "2026-10-24 22:00+00"), ("timestamp", "2026-10-25 00:00"), ("date", "2026-10-25")],
)
def test_the_database_cuts_exactly_as_the_engine_would(pg, kind, first):
    pg.run(
        f"create table public.t as select n as id, ('2026-10-23'::timestamp + n * interval '30 minutes')::{kind} as at "
        "from generate_series(0, 200) n"
    )
    table = Table("pg.public.t", event_time="at")
    day = Day.unit("2026-10-25", BERLIN)
    whole = pg.read(table)
    wanted = whole.where(happened_in(whole.schema, "at", day, BERLIN, "t")).collect()
    found = pg.cut(table, day, BERLIN).collect()
    assert sorted(found) == sorted(wanted)
    assert wanted


def test_hours_that_come_twice_in_local_time_are_told_apart(pg):
    pg.run(
        "create table public.t as select n as id, timestamptz '2026-10-25 00:00:00+00' + n * interval '30 minutes' "
        "as hour from generate_series(0, 5) n"
    )
    table = Table("pg.public.t", partition=Hour("hour"))
    for hour in range(3):
        rows = pg.cut(table, window(f"2026-10-25T{hour:02d}:00:00", hours=1), BERLIN)
        assert sorted(row.id for row in rows.collect()) == [2 * hour, 2 * hour + 1]


def test_filters_of_a_step_reach_the_database_and_compare_as_spark_does(pg):
    pg.run(
        'create table public.t (id bigint, name text collate "en-x-icu");'
        "insert into public.t values (1, 'a'), (2, 'B'), (3, 'c'), (4, null)"
    )
    rows = pg.read(Table("pg.public.t")).where("name > 'Z'")
    assert "PushedFilters: [*IsNotNull(c1), *GreaterThan(c1,Z)" in plan(rows)
    assert sorted(row.id for row in rows.collect()) == [1, 3]


def bank(pg, index=False):
    pg.run(
        "create table public.accounts (id bigint, amount bigint, at timestamptz, pad text);"
        "insert into public.accounts select n, 100, timestamptz '2026-04-25 00:00:00+00' + n * interval '1 minute', "
        f"repeat('x', 200) from generate_series(0, {ACCOUNTS - 1}) n; analyze public.accounts"
    )
    if index:
        pg.run("create index on public.accounts (at); analyze public.accounts")


@pytest.mark.parametrize("windowed", [False, True])
def test_s54_rows_that_move_between_two_reads_of_one_table_are_seen_at_one_moment(
    pg, one_row_is_worth_a_task, windowed
):
    bank(pg, index=windowed)
    table = Table("pg.public.accounts", event_time="at")
    if windowed:
        pg.run("alter database " + pg.url.rsplit("/", 1)[1] + " set enable_seqscan = off")
    rows = pg.cut(table, window("2026-04-25")) if windowed else pg.read(table)
    parts = rows.rdd.getNumPartitions()
    assert parts >= 2
    run = pg.session.sparkContext.runJob
    first = run(rows.rdd, list, list(range(parts - 1)))
    # Half of the accounts pay into the first one; one is closed, another is opened.
    with psycopg.connect(pg.url) as connection:
        connection.execute(f"update public.accounts set amount = 0 where id >= {ACCOUNTS // 2}")
        connection.execute(f"update public.accounts set amount = {100 * ACCOUNTS // 2 + 100} where id = 0")
        connection.execute(f"delete from public.accounts where id = {ACCOUNTS - 1}")
        connection.execute("insert into public.accounts values (1000, 500, '2026-04-25 00:00:00+00', 'new')")
    last = run(rows.rdd, list, [parts - 1])
    read = first + last
    assert sorted(row.id for row in read) == list(range(ACCOUNTS))
    assert sum(row.amount for row in read) == 100 * ACCOUNTS
    assert rows.count() == ACCOUNTS, "and a second look sees the same moment"
    pg.store.release(pg.session)
    now = pg.read(table).collect()
    assert sorted(row.id for row in now) == [*range(ACCOUNTS - 1), 1000]


def test_s54_two_tables_are_read_at_one_moment(pg):
    pg.run("create table public.orders (id int); create table public.items (order_id int)")
    pg.run("insert into public.orders values (1); insert into public.items values (1)")
    orders = pg.read(Table("pg.public.orders"))
    assert orders.count() == 1
    pg.run("insert into public.orders values (2); insert into public.items values (2)")
    assert pg.read(Table("pg.public.items")).count() == 1


def test_tasks_together_read_the_table_once(pg, one_row_is_worth_a_task):
    bank(pg)
    rows = pg.read(Table("pg.public.accounts"))
    assert "numPartitions=2" in plan(rows)
    assert sorted(row.id for row in rows.collect()) == list(range(ACCOUNTS))
    with psycopg.connect(pg.url) as connection:
        nodes = connection.execute(
            "explain select c0 from (select id as c0, ctid as place from public.accounts) as twice "
            "where place >= '(5,0)'::tid"
        ).fetchall()
    assert "Tid Range Scan" in nodes[0][0]


def test_a_small_table_is_read_over_one_connection(pg):
    bank(pg)
    assert "numPartitions=1" in plan(pg.read(Table("pg.public.accounts")))


def test_a_view_can_be_read_too(pg, one_row_is_worth_a_task):
    bank(pg)
    pg.run("create view public.rich as select id, at from public.accounts where id < 10")
    view = Table("pg.public.rich", event_time="at")
    assert pg.read(view).count() == 10
    assert pg.store.seen(pg.session, view, window("2026-04-25"), UTC) is None, "it has no fingerprint"


def test_reading_holds_no_lock_that_keeps_the_table_from_being_changed(pg):
    bank(pg)
    table = Table("pg.public.accounts", event_time="at")
    assert pg.store.seen(pg.session, table, window("2026-04-25"), UTC)
    pg.read(table).count()
    pg.run("set lock_timeout = '1s'; alter table public.accounts add column more int")


def test_what_is_seen_of_a_window_follows_the_rows_of_the_window_alone(pg):
    bank(pg)
    table = Table("pg.public.accounts", event_time="at")

    def seen(hour):
        pg.store.release(pg.session)
        return pg.store.seen(pg.session, table, window(f"2026-04-25T{hour:02d}:00:00", hours=1), UTC)

    before = seen(0), seen(1), seen(23)
    assert before[2] == "0:0"
    pg.run("update public.accounts set amount = amount where id = 0")
    after = seen(0), seen(1), seen(23)
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    pg.run("vacuum freeze public.accounts")
    assert (seen(0), seen(1), seen(23)) == after
    pg.run("insert into public.accounts values (9999, 1, '2026-04-25 23:30:00+00')")
    assert seen(23) != before[2]


def test_partitions_of_a_table_that_twice_does_not_write_have_fingerprints(pg):
    pg.run("create table public.t (day date, n int); insert into public.t values ('2026-04-25', 1)")
    table = Table("pg.public.t", partition=Day("day"))
    target = Target.of(table, Scope.of(window("2026-04-25", days=2)), UTC)

    def files():
        pg.store.release(pg.session)
        return list(pg.store.files(pg.session, target, pg.store.version(pg.session, table)).values())

    first, second = files()
    assert (bool(first), second) == (True, "")
    pg.run("update public.t set n = 2")
    assert files()[0] != first


def test_a_source_in_postgres_feeds_the_lake_and_is_noticed_when_it_changes(lab, postgres_database):
    config = StoreConfig("pg", "sql", {"url": postgres_database})
    lab.config = dataclasses.replace(lab.config, stores={**lab.config.stores, "pg": config})

    def change(statement):
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(statement)

    change(
        "create table public.orders (order_id bigint primary key, amount numeric(10,2), ordered_at timestamptz); "
        "insert into public.orders select n, n, timestamptz '2026-04-24 00:00:00+00' + n * interval '6 hours' "
        "from generate_series(0, 11) n"
    )
    source = Table("pg.public.orders", event_time="ordered_at")
    target = Table(lab.name("facts"), partition=Day("order_date"), key=["order_id"], write=Overwrite())
    pipeline = Pipeline("shop", grain=Day)
    pipeline.sql(
        "facts", reads={"orders": source}, writes=target, query="select *, date(ordered_at) as order_date from orders"
    )
    lab.run(pipeline, "2026-04-25")
    assert [row["order_id"] for row in lab.rows("facts")] == [4, 5, 6, 7]
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "fresh"
    change("insert into public.orders values (100, 1, '2026-04-26 10:00:00+00')")
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "fresh"
    change("update public.orders set amount = 7 where order_id = 4")
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "published"
    assert {row["amount"] for row in lab.rows("facts")} == {Decimal(7), Decimal(5), Decimal(6)}
    with psycopg.connect(postgres_database) as connection:
        idle = connection.execute("select count(*) from pg_stat_activity where state like 'idle in%'").fetchone()
    assert idle == (0,), "no snapshot is left open"


def test_a_version_that_was_published_over_meanwhile_is_a_conflict(pg):
    pg.run(
        "create table public.t (n int); create table public.twice_tables (table_name text, token bigint, "
        "version bigint, columns text, properties text); create table public.twice_claims (table_name text); "
        "insert into public.twice_tables values ('t', 1, 7, '', '{}')"
    )
    table = Table("pg.public.t")
    assert pg.store.read(pg.session, table, "7").count() == 0
    with pytest.raises(Conflict, match="version 6"):
        pg.store.read(pg.session, table, "6")
    pg.run("update public.twice_tables set version = 8")
    assert pg.store.read(pg.session, table, "8").count() == 0
    assert pg.store.read(pg.session, table, "7").count() == 0, "the older moment is still held"


def test_a_moment_that_the_server_ended_is_a_transient_error(pg):
    pg.run("create table public.t (n int); insert into public.t values (1)")
    rows = pg.read(Table("pg.public.t"))
    pg.run("select pg_terminate_backend(pid) from pg_stat_activity where state like 'idle in%'")
    with pytest.raises(Exception) as caught:
        rows.collect()
    assert is_transient(caught.value), caught.value


def test_the_password_is_in_no_plan_and_no_error(pg, capfd):
    pg.run("create table public.t (n int); insert into public.t values (1)")
    rows = pg.read(Table("pg.public.t"))
    rows.explain(extended=True)
    texts = [*capfd.readouterr(), rows._jdf.queryExecution().toString(), repr(pg.store.database)]
    pg.run("drop table public.t")
    with pytest.raises(Exception) as caught:
        rows.collect()
    texts.append(str(caught.value))
    assert not [text for text in texts if PASSWORD in text or "5ecret" in text]


def test_odd_names_and_values_are_names_and_values(pg):
    # Twice in a row, as where a sign escapes itself; `make test` takes all of them in one name
    marks = [f"{char}{char}" for char in string.punctuation if char not in "/\\."]
    odd = [
        'say "hi"', "it's", "a.b", "back\\slash", "100%", "%s %(x)s", ":name", "${x}"[1:], "?", "ü 漢😀", "a;--", "{d}",
        *(marks if FULL else ["".join(marks)]),
    ]  # fmt: skip
    with psycopg.connect(pg.url, autocommit=True) as connection:
        for name in odd:
            table = sql.Identifier("public", "t" + name.replace("\\", ""))
            connection.execute(sql.SQL("create table {} ({} text, day date)").format(table, sql.Identifier(name)))
            values = sql.SQL("({}, '2026-04-25'), ('x', '2026-04-25')").format(sql.Literal(name))
            connection.execute(sql.SQL("insert into {} values {}").format(table, values))
    for name in odd:
        called = "t" + name.replace("\\", "").replace("`", "``")
        table = Table(f"pg.public.`{called}`", partition=Day("day"), dimensions=[name])
        rows = pg.cut(table, window("2026-04-25"), **{name: name}).collect()
        assert [tuple(row) for row in rows] == [(name, date(2026, 4, 25))], name


@pytest.fixture
def lite(tmp_path, spark):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")

    class Lite:
        file = tmp_path / "it's 100%.db"
        store = open_store(StoreConfig("lite", "sql", {"url": f"sqlite:///{tmp_path}/it's 100%25.db"}), tmp_path)

        def run(self, statement, *rows):
            with sqlite3.connect(self.store.database.url.database) as connection:
                connection.executemany(statement, rows) if rows else connection.executescript(statement)

        def read(self, name):
            table = Table(f"lite.main.{name}")
            return self.store.read(session, table, self.store.version(session, table))

    return Lite()


def test_sqlite_gives_back_what_each_column_is_declared_to_hold(lite):
    lite.run(
        "create table kinds (flag BOOLEAN, n INTEGER, big BIGINT, d DOUBLE, price DECIMAL(38,2), day DATE, "
        "at TIMESTAMPTZ, local TIMESTAMP, name TEXT, code VARCHAR(3), bytes BLOB, anything, doc JSON)"
    )
    lite.run(
        f"insert into kinds values ({','.join('?' * 13)})",
        (
            1, 5_000_000_000, -(2**63), 0.1 + 0.2, "12.50", "2026-03-29", "2026-10-25 00:30:00.123456+00:00",
            "2026-03-29 02:30:00.654321", "", "é漢", b"\x00\xff", 3, '{"a": 1}',
        ),
        (0, 0, 2**63 - 1, "NaN", b"123456789012345678901234567890123456.78", None, "2026-10-25T01:30:00Z",
         None, None, "😀", b"", 0.1 + 0.2, None),
        (None, None, None, float("inf"), -7, None, "2026-10-25 01:30:00", None, None, None, None, None, None),
    )  # fmt: skip
    rows = lite.read("kinds")
    assert dict(rows.dtypes) == {
        "flag": "boolean", "n": "bigint", "big": "bigint", "d": "double", "price": "decimal(38,2)", "day": "date",
        "at": "timestamp", "local": "timestamp_ntz", "name": "string", "code": "string", "bytes": "binary",
        "anything": "string", "doc": "string",
    }  # fmt: skip
    found = rows.selectExpr("*", "unix_micros(at) as u", "cast(local as string) as l").drop("at", "local").collect()
    first, second, third = found
    assert first.asDict() == {
        "flag": True, "n": 5_000_000_000, "big": -(2**63), "d": 0.1 + 0.2, "price": Decimal("12.50"),
        "day": date(2026, 3, 29), "name": "", "code": "é漢", "bytes": bytearray(b"\x00\xff"), "anything": "3",
        "doc": '{"a": 1}', "u": 1792888200123456, "l": "2026-03-29 02:30:00.654321",
    }  # fmt: skip
    assert (str(second.d), second.price) == ("nan", Decimal("123456789012345678901234567890123456.78"))
    assert (second.flag, second.anything, second.u) == (False, "0.30000000000000004", 1792891800000000)
    assert (third.d, third.price, third.u) == (float("inf"), Decimal(-7), 1792891800000000)


@pytest.mark.parametrize(
    ("declared", "value"),
    [("INTEGER", "many"), ("DATE", "yesterday"), ("DATE", 5), ("DECIMAL(5,2)", 12345678.9), ("BOOLEAN", "yes")],
)
def test_a_value_of_sqlite_that_is_not_what_its_column_says_stops_the_read(lite, declared, value):
    lite.run(f"create table odd (v {declared})")
    lite.run("insert into odd values (?)", (value,))
    with pytest.raises(Exception, match="column v holds a value that cannot be read as ") as stopped:
        lite.read("odd").collect()
    # The value may be personal: it is not shown
    assert str(value) not in str(stopped.value)


def test_sqlite_tells_by_its_rows_whether_a_table_changed(lite, spark):
    lite.run("create table t (n INTEGER); create table other (n INTEGER)")
    table = Table("lite.main.t")
    lite.run("insert into t values (?)", (1,), (2,))
    before = lite.store.version(spark, table)
    lite.run("insert into other values (?)", (1,))
    assert lite.store.version(spark, table) == before
    lite.run("update t set n = 3 where n = 2")
    assert lite.store.version(spark, table) != before


def test_filters_are_not_handed_to_sqlite_whose_like_knows_no_case(lite):
    lite.run("create table t (name TEXT)")
    lite.run("insert into t values (?)", ("Anna",), ("anna",))
    rows = lite.read("t").where("name like 'an%'")
    assert [row.name for row in rows.collect()] == ["anna"]


def test_the_cut_is_written_so_that_nothing_in_a_value_is_read_as_sql():
    for text in ["it's", "back\\", "\\'", "''", "x' or '1'='1"]:
        literal = reading.text_literal(text)
        assert literal.startswith("E'")
        body = literal[2:-1]
        assert body.replace("\\\\", "\0").replace("''", "\1").count("'") == 0
        assert body.replace("\\\\", "\0").replace("''", "\1").replace("\0", "\\").replace("\1", "'") == text
