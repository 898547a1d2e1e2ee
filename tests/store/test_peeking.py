"""What stores find out without Spark about tables that are not the usual ones, and what they leave to it."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sqlite3
from datetime import datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import psycopg
import pytest

from tests.support import stores
from tests.support.peeking import agrees, peeked
from tests.support.tables import StoreTables
from twice import Day, Hour, Overwrite, Table, Whole
from twice.config import StoreConfig
from twice.engine.status.peeked_state import NeedsSpark, PeekedState
from twice.engine.stores import Stores, open_store
from twice.errors import StoreRefused
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

pytestmark = pytest.mark.spark

UTC = ZoneInfo("UTC")
WINDOW = Window(datetime(2026, 4, 20, tzinfo=timezone.utc), datetime(2026, 4, 23, tzinfo=timezone.utc))
MON, TUE, WED = "2026-04-20", "2026-04-21", "2026-04-22"


@pytest.fixture(params=["iceberg", "delta"])
def tables(lab, request):
    place = stores.make(request.param, lab.spark, lab.folder, lab.space, "")
    yield StoreTables(lab, place)
    place.close()


@pytest.fixture
def tables_of_sqlite(lab):
    place = stores.make("sqlite", lab.spark, lab.folder, lab.space, "")
    yield StoreTables(lab, place)
    place.close()


def whole(table: Table, **dimensions: str) -> Target:
    return Target.of(table, Scope.of(WINDOW, dimensions), UTC)


def test_hours_dimensions_and_odd_names(tables):
    spark = tables.lab.spark
    contract = {"partition": Hour("the hour"), "dimensions": ["te'nant"], "key": ["id"], "write": Overwrite()}
    feed = tables.feed(tables.table(**contract), "id bigint, `te'nant` string, `the hour` timestamp", grain=Hour)
    store = tables.store(feed.table)
    tables.published(feed, f"{MON}T10", 1, (1, "a/b c"), **{"te'nant": "a/b c"})
    tables.published(feed, f"{TUE}T23", 2, (2, "ü%20"), **{"te'nant": "ü%20"})
    for value, when in (("a/b c", f"{MON}T10"), ("ü%20", f"{TUE}T23")):
        found = agrees(spark, store, whole(feed.table, **{"te'nant": value}))
        held = [partition.window.start for partition, text in found.items() if text]
        assert held == [datetime.fromisoformat(f"{when}:00").replace(tzinfo=timezone.utc)]
    assert sum(map(bool, agrees(spark, store, whole(feed.table)).values())) == 2


def test_a_table_without_partitions_and_columns_that_came_later(tables):
    spark = tables.lab.spark
    table = tables.table(key=["id"], write=Whole())
    feed = tables.feed(table, "id bigint, n int")
    tables.published(feed, MON, 1, (1, 1))
    later = tables.feed(table, "id bigint, n int, more string")
    tables.published(later, MON, 2, (1, 1, "x"))
    assert all(agrees(spark, tables.store(table), whole(table)).values())


def test_what_only_java_reads_is_left_to_it(tables):
    spark = tables.lab.spark
    daily = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), "id bigint, n int, d date")
    tables.published(daily, MON, 1, (1, 1), (2, 1))
    store, both = tables.store(daily.table), tables.target(daily, MON, WED)
    name = tables.place.name("t")
    if tables.place.kind == "iceberg":
        spark.sql(f"alter table {name} set tblproperties ('write.delete.mode'='merge-on-read')")
        spark.sql(f"delete from {name} where id = 1")
        assert peeked(spark, store, both)[1] is None  # a delete file
        assert peeked(spark, store, both)[0] == store.version(spark, daily.table)
    else:
        before = agrees(spark, store, both)
        log = Path(tables.place.path("t")) / "_delta_log"
        newest = max(log.glob("*.crc"))
        kept = newest.read_bytes()
        newest.write_text("{")  # a checksum that was cut off
        assert peeked(spark, tables.reopened(daily.table), both) == (None, None)
        newest.unlink()
        assert peeked(spark, tables.reopened(daily.table), both) == (None, None)
        newest.write_bytes(kept)
        assert agrees(spark, store, both) == before


def test_a_table_that_is_not_laid_out_as_its_contract_says_is_left_to_the_run_which_refuses_it(tables):
    spark = tables.lab.spark
    daily = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), "id bigint, n int, d date")
    tables.published(daily, MON, 1, (1, 1))
    store, both = tables.store(daily.table), tables.target(daily, MON, WED)
    agrees(spark, store, both)
    assert store.peek_check(daily.table)
    if tables.place.kind == "iceberg":
        spark.sql(f"alter table {tables.place.name('t')} add partition field n")
    else:
        spark.sql(f"alter table delta.`{tables.place.path('t')}` set tblproperties ('delta.appendOnly'='true')")
    assert not store.peek_check(daily.table)
    with pytest.raises(StoreRefused):
        store.check(spark, daily.table)


def test_commits_by_hand_in_every_form(tables):
    spark, place = tables.lab.spark, tables.place
    daily = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), "id bigint, n int, d date")
    tables.published(daily, MON, 1, (1, 1), (2, 1))
    tables.published(daily, TUE, 2, (3, 1))
    store, both = tables.store(daily.table), tables.target(daily, MON, WED)
    is_delta = place.kind == "delta"
    name = f"delta.`{place.path('t')}`" if is_delta else place.name("t")
    compact, change = f"optimize {name} where d = date'{TUE}'", f"alter table {name} set tblproperties ('a' = 'b')"
    before = agrees(spark, store, both)
    for statement in (
        f"insert into {name} values (4, 4, date'{TUE}'), (5, 5, null)",
        f"delete from {name} where id = 3",
        *([compact, change] if is_delta else []),
        *([f"insert into {name} values (6, 6, date'{TUE}')"] * (12 if is_delta else 1)),  # past a checkpoint
    ):
        spark.sql(statement)
    after = agrees(spark, store, both)
    assert [after[each] == before[each] for each in both.partitions] == [True, False]


def test_delta_with_other_names_for_its_columns_and_deletion_vectors(lab):
    place = stores.make("delta", lab.spark, lab.folder, lab.space, "")
    tables = StoreTables(lab, place)
    daily = tables.feed(tables.table(partition=Day("a day"), key=["id"], write=Overwrite()), "id bigint, `a day` date")
    tables.published(daily, MON, 1, (1,), (2,))
    store, both = tables.store(daily.table), tables.target(daily, MON, WED)
    first = agrees(lab.spark, store, both)
    name = f"delta.`{place.path('t')}`"
    lab.spark.sql(f"alter table {name} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    lab.spark.sql(f"delete from {name} where id = 1")
    second = agrees(lab.spark, store, both)
    assert second[both.partitions[0]] not in ("", first[both.partitions[0]])


def test_what_a_file_of_another_writer_holds_is_never_a_crash(tables):
    daily = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), "id bigint, n int, d date")
    tables.published(daily, MON, 1, (1, 1))
    both = tables.target(daily, MON, WED)
    assert PeekedState.of(tables.lab.config, [daily.table]).outputs(both)[both.partitions[0]]
    for text in ("null", "1", "[]", '{"metadata": 1}', '{"metadata": {}, "protocol": null}', "{", "\ud800"):
        for file in metadata_files(tables):
            file.write_text(text, errors="surrogatepass")
        with pytest.raises(NeedsSpark):
            PeekedState.of(tables.lab.config, [daily.table]).outputs(both)


def metadata_files(tables: StoreTables) -> list[Path]:
    """Return the files that say what a table holds now."""
    if tables.place.kind == "delta":
        return list(tables.place.path("t").rglob("*.crc"))
    catalog = tables.lab.config.stores["lake"].options["catalog"].removeprefix("sqlite:///")
    with sqlite3.connect(tables.lab.config.root / catalog) as connection:
        query = "select metadata_location from iceberg_tables where table_namespace = ?"
        return [Path(place.removeprefix("file:")) for (place,) in connection.execute(query, [tables.place.space])]


def test_an_odd_name_in_a_folder_is_no_crash(lab):
    folder = lab.folder / "landing" / "in" / "orders" / f"d={MON}"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.csv")).write_text("1\n")
    store = open_store(StoreConfig("drop", "files", {"path": str(lab.folder / "landing"), "format": "csv"}), lab.folder)
    assert store.peek_files(whole(Table("drop.in.orders", partition=Day("d"), schema="n int, d date")))
    assert store.peek(Table(f"drop.in.{'x' * 300}", schema="n int")) is None


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_on_a_cluster_spark_is_always_asked(lab, monkeypatch, name):
    assert PeekedState.of(lab.config, [Table("lake.a.b")]) is not None
    monkeypatch.setenv(name, "/etc/hadoop")
    assert PeekedState.of(lab.config, [Table("lake.a.b")]) is None
    monkeypatch.delenv(name)
    assert PeekedState.of(lab.config, [Table("unknown.a.b")]) is None


@pytest.mark.parametrize("name", ["spark.hadoop.fs.defaultFS", "spark.sql.catalog.lake.uri"])
def test_where_the_profile_says_itself_where_tables_are_spark_is_asked(lab, name):
    assert PeekedState.of(dataclasses.replace(lab.config, spark={name: "hdfs://n"}), []) is None


def test_with_the_settings_of_spark_submit_spark_is_asked(lab, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert PeekedState.of(lab.config, []) is None


def test_a_store_that_needs_spark_to_be_opened_is_left_to_it(lab, monkeypatch):
    monkeypatch.setattr(Stores, "source", lambda self, table: importlib.import_module("no_such_driver"))
    assert PeekedState.of(lab.config, [Table("lake.a.b")]) is None


def test_an_input_that_was_dropped_from_a_database_is_left_to_the_run(tables_of_sqlite):
    tables = tables_of_sqlite
    table = tables.table(key=["id"], write=Whole())
    feed = tables.feed(table, "id bigint, n int")
    feed.put(MON, (1, 1))
    tables.run(feed, MON)
    read = Table(table.name, event_time="at")
    store = tables.store(table)
    assert store.peek_seen(read, WINDOW, UTC)
    with tables.place.engine.begin() as connection:
        connection.exec_driver_sql("drop table t")
    assert store.peek_seen(read, WINDOW, UTC) is None


def test_a_log_that_only_java_reads(lab):
    place = stores.make("delta", lab.spark, lab.folder, lab.space, "")
    tables = StoreTables(lab, place)
    daily = tables.feed(tables.table(partition=Day("d"), key=["id"], write=Overwrite()), "id bigint, n int, d date")
    tables.published(daily, MON, 1, (1, 1))
    store, table = tables.store(daily.table), daily.table
    log = Path(place.path("t")) / "_delta_log"
    assert store.peek(table)
    checkpoint = log / f"{99:020d}.checkpoint.parquet"
    checkpoint.touch()
    assert store.peek(table) is None  # of a commit that is not there
    checkpoint.unlink()
    newest = max(log.glob("*.crc"))
    newest.write_text(newest.read_text().replace('"minReaderVersion":', '"minReaderVersion":9'))
    assert store.peek(table) is None


def test_files_on_a_disk_are_listed_as_spark_lists_them(lab):
    folder = lab.folder / "landing"
    for name in (f"d={MON}/t=a b/x.csv", f"d={TUE}/t=%2F/y.csv", f"d={TUE}/t=%2F/deep/z.csv", f"d={TUE}/t=q/_skip"):
        file = folder / "in" / "orders" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1\n")
    (folder / "in" / "orders" / f"d={TUE}" / ".hidden").mkdir()
    (folder / "in" / "orders" / f"d={TUE}" / ".hidden" / "w.csv").write_text("1\n")
    moment = 1_745_000_000_123_456_789  # finer than any listing of Java
    os.utime(folder / "in" / "orders" / f"d={MON}/t=a b/x.csv", ns=(moment, moment))
    store = open_store(StoreConfig("drop", "files", {"path": str(folder), "format": "csv"}), lab.folder)
    table = Table("drop.in.orders", partition=Day("d"), dimensions=["t"], schema="n int, d date, t string")
    found = agrees(lab.spark, store, whole(table))
    assert list(map(bool, found.values())) == [True, True, False]
    event = Table("drop.in.orders", event_time="at", schema="n int, at timestamp")
    assert store.peek_seen(event, WINDOW, UTC) == store.seen(lab.spark, event, WINDOW, UTC) != ""
    absent = Table("drop.in.nothing", partition=Day("d"), schema="n int, d date")
    assert peeked(lab.spark, store, whole(absent)) == (None, None)  # the cluster may have such a folder
    assert store.peek_seen(absent, WINDOW, UTC) is None


def test_a_table_of_postgres_that_another_writer_fills(lab, postgres_database):
    store = open_store(StoreConfig("pg", "sql", {"url": postgres_database}), lab.folder)
    table = Table("pg.public.orders", partition=Day("d"))
    event = Table("pg.public.orders", event_time="at")

    def run(statement):
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(statement)

    run("create table orders (n int, d date, at timestamptz); create view seen_by as select * from orders")
    run(f"insert into orders values (1, '{MON}', '{MON} 10:00Z'), (2, '{TUE}', '{TUE} 10:00Z')")
    before = agrees(lab.spark, store, whole(table))
    assert list(map(bool, before.values())) == [True, True, False]
    seen = store.peek_seen(event, WINDOW, UTC)
    assert seen == store.seen(lab.spark, event, WINDOW, UTC)
    store.release(lab.spark)
    run("update orders set n = 3 where n = 2")
    after = agrees(lab.spark, store, whole(table))
    assert [after[each] == before[each] for each in after] == [True, False, True]
    assert store.peek_seen(event, WINDOW, UTC) != seen
    view = whole(Table("pg.public.seen_by", partition=Day("d")))
    assert store.peek_files(view) != store.peek_files(view)  # its rows do not name their writer: never the same
