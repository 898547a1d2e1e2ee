"""Rows on their way from Spark into a SQL database and back: every type, exactly."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.store import databases
from tests.store.databases import two_days
from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Table, Whole
from twice.content.profile import profile
from twice.errors import OutOfScope, SchemaRefused
from twice.store.sql.schema import bookkeeping
from twice.store.sql.store import SqlStore

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
ROWS = r"""
select id, date'2026-04-25' + cast(id % 2 as int) as d,
  cast(id as decimal(12,2)) / 7 as ratio, cast(id as decimal(18,2)) as money,
  cast('12345678901234567890123456.0123456789' as decimal(38,10)) as wide,
  cast(-id as decimal(38,0)) as whole,
  timestamp_micros(1777000000123456 + id) as at, timestamp_ntz'2026-10-25 02:30:00.5' as local_time,
  case id when 0 then '' when 1 then null when 2 then 'NULL' when 3 then '\\N' when 4 then 'a"b,c\n\r\td\\'
    else 'ünï 🎉 \'quoted\' {x}' end as text,
  if(id = 3, null, id % 2 = 0) as flag,
  cast(id as double) / 3 as ratio8, cast(cast(id as float) / 3 as float) as ratio4,
  case id when 0 then double('NaN') when 1 then double('Infinity') when 2 then double('-Infinity') end as odd,
  cast(id as tinyint) as tiny, cast(id as smallint) as small, cast(id as int) as usual, id * 1000000007 as large,
  if(id = 1, X'', X'00ff5c22') as bytes,
  case id when 0 then array() when 1 then null else array('a,"b', null, 'x\\y', '', '{}', 'null', 'NULL') end as texts,
  array(1.50bd, null) as numbers, array(timestamp_micros(5), null) as instants, array(date'2026-04-25') as dates,
  array(double('NaN'), 1.5d) as doubles, array(true, null) as flags, array(X'0a', null) as blobs,
  if(id = 2, null, named_struct('k', id, 'no', cast(null as string), 'm', map('z', timestamp_micros(1)),
    'a', array(named_struct('x', 1.10bd)))) as nested,
  map('ключ', 1.5d, '', null) as mapped
from range(8)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "sqlite":
        place = databases.sqlite_place(tmp_path)
    else:
        place = databases.postgres_place(request.getfixturevalue("postgres_database"))
    return SqlStore(place.database), place


def through(store, session, table, rows, token=1):
    """Stage and publish rows; return the version."""
    store.check(session, table)
    store.prepare(session, table, rows.schema)
    target = two_days(table)
    staged = store.open(session, target, token)
    store.stage(session, staged, rows)
    assert staged.strays == []
    return store.publish(session, staged, target.partitions, {}, {})


@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=pytest.mark.full), "America/St_Johns"])
def test_every_type_comes_back_as_it_went_in(spark, store, zone):
    store, place = store
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    rows = session.sql(ROWS).localCheckpoint()
    table = place.table()

    version = through(store, session, table, rows)

    found = store.read(session, table, version)
    assert found.schema.simpleString() == rows.schema.simpleString()
    expected = profile(rows, partition=["d"], key=["id"])
    got = profile(found, partition=["d"], key=["id"])
    # Only a difference is worth a look at each column.
    for name in rows.columns if got != expected else []:
        theirs = {str(row[0]): str(row[1]) for row in found.select("id", name).collect()}
        ours = {str(row[0]): str(row[1]) for row in rows.select("id", name).collect()}
        assert theirs == ours, name
    assert got == expected
    store.release(session)


def test_a_result_in_batches_is_staged_as_one(spark, store):
    store, place = store
    session, table = spark.newSession(), place.table()
    rows = session.sql("select id, date'2026-04-25' as d, cast(id as string) as name from range(10)")
    store.prepare(session, table, rows.schema)
    staged = store.open(session, two_days(table), 1)
    store.stage(session, staged, rows)
    store.stage_more(session, staged, rows.select((F.col("id") + 10).alias("id"), "d", "name"))
    assert store.staged(session, staged).count() == 20
    store.publish(session, staged, staged.target.partitions, {}, {})
    assert len(place.rows(table)) == 20
    assert store.files(session, staged.target, store.version(session, table)) == staged.files()


def test_rows_outside_the_scope_are_shown(spark, store):
    store, place = store
    session, table = spark.newSession(), place.table()
    rows = session.sql("select id, date'2026-04-25' + cast(id as int) * 5 as d, 'x' as name from range(3)")
    store.prepare(session, table, rows.schema)
    staged = store.open(session, two_days(table), 1)
    store.stage(session, staged, rows)
    assert [stray.rows for stray in staged.strays] == [2]
    assert sorted(row["id"] for row in store.stray_rows(session, staged, 5)) == [1, 2]


def test_a_value_that_does_not_fit_is_refused_while_staging(spark, pg):
    store, table = SqlStore(pg.database), pg.table()
    session = spark.newSession()
    pg.sql("create table mart (d date not null, id bigint not null, name varchar(3), primary key (d, id))")
    rows = session.sql("select 1L as id, date'2026-04-25' as d, 'a private name' as name")
    store.prepare(session, table, rows.schema)
    staged = store.open(session, two_days(table), 1)
    with pytest.raises(SchemaRefused, match="column name") as found:
        store.stage(session, staged, rows)
    assert "private" not in str(found.value)
    nul = session.sql("select 1L as id, date'2026-04-25' as d, cast(X'00' as string) as name")
    with pytest.raises(SchemaRefused, match="0x00"):
        store.stage(session, staged, nul)
    assert pg.rows(table) == []


@pytest.fixture
def served(lab, store):
    """A lab whose configuration has the database as its store `serving`."""
    store, place = store
    url = store.database.url.render_as_string(hide_password=False)
    lab.declare(f'[stores.serving]\ntype = "sql"\nurl = "{url}"\n')
    return lab, place


def source(lab):
    rows = "select id, date'2026-04-25' + cast(id % 2 as int), cast(id as int), timestamp'2026-04-25' from range(8)"
    return lab.source("raw", "id bigint, d date, n int, u timestamp", rows)


def four(lab, place):
    pipeline, raw = Pipeline("serve", grain=Day), source(lab)
    full = {name: f"serving.{place.space}.{name}" for name in ("mart", "dim", "log", "latest")}
    contracts = [
        Table(full["mart"], partition=Day("d"), key=["id"], write=Overwrite()),
        Table(full["dim"], key=["id"], write=Merge(version="u")),
        Table(full["log"], key=["id"], write=InsertOnly()),
        Table(full["latest"], key=["id"], write=Whole()),
    ]
    for table in contracts:
        pipeline.sql(table.id.parts[-1], reads={"raw": raw}, writes=table, query="select * from raw")
    return pipeline, contracts


@pytest.mark.full
def test_every_pattern_runs_twice_notices_hands_and_follows_its_input(served):
    lab, place = served
    pipeline, contracts = four(lab, place)
    assert [step.status for step in lab.run(pipeline, DAY).steps] == ["published"] * 4
    right = [place.rows(table) for table in contracts]
    assert [len(rows) for rows in right] == [4, 4, 4, 4]
    assert [step.status for step in lab.run(pipeline, DAY).steps] == ["unchanged"] * 4
    assert [step.status for step in lab.run(pipeline, DAY, skip_fresh=True).steps] == ["fresh"] * 4

    for table in contracts:
        place.sql(f"delete from {table.id.parts[-1]} where id = 2")
    assert [step.status for step in lab.run(pipeline, DAY, skip_fresh=True).steps] == ["published"] * 4
    assert [place.rows(table) for table in contracts] == right

    lab.spark.sql(f"update {lab.name('raw')} set n = 100, u = timestamp'2026-04-26 00:00:00' where id = 4")
    steps = lab.run(pipeline, DAY, steps=["mart", "dim", "latest"]).steps
    assert [step.status for step in steps] == ["published"] * 3
    assert {row[2] for table in contracts[:2] for row in place.rows(table) if row[0] == 4} == {100}
    assert place.left() == []
    assert lab.ledger.leases.list() == []


def test_a_refused_first_result_leaves_no_table_and_no_stage(served):
    lab, place = served
    raw = source(lab)
    pipeline = Pipeline("bad", grain=Day)
    mart = Table(f"serving.{place.space}.mart", partition=Day("d"), key=["id"], write=Overwrite())
    pipeline.sql("mart", reads={"raw": raw}, writes=mart, query="select id, d + 3 as d, n from raw")
    with pytest.raises(OutOfScope, match="4 rows outside its scope"):
        lab.run(pipeline, DAY)
    with place.database.look() as connection:
        assert place.database.columns(connection, mart.id) == ()  # it was the first attempt: it leaves no table
    assert place.left() == []
    with place.database.look() as connection:
        assert bookkeeping.open_tokens(connection, bookkeeping.tables_of(place.database, mart.id), mart.id) == []
