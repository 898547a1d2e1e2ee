"""Files that somebody else lands, read as a source."""

from __future__ import annotations

import dataclasses
import os
import random
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from twice import Day, Hour, Overwrite, Pipeline, Table
from twice.config import StoreConfig, load
from twice.content.filters import partitions_between
from twice.engine.stores import open_store
from twice.errors import ConfigError, SchemaRefused, StepFailed, StoreRefused
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.files import listing

pytestmark = pytest.mark.spark
UTC = ZoneInfo("UTC")
SCHEMA = "order_id BIGINT, amount DECIMAL(10,2), ordered_at TIMESTAMP, order_date DATE"


@pytest.fixture
def landing(lab):
    """A store `drop` over the folder `landing`, and the means to put files there."""

    class Landing:
        folder = lab.folder / "landing"

        def store(self, kind="csv", **options):
            options = {"path": str(self.folder), "format": kind, **options}
            config = StoreConfig("drop", "files", options)
            lab.config = dataclasses.replace(lab.config, stores={**lab.config.stores, "drop": config})
            return open_store(config, lab.folder)

        def put(self, name, text):
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return file

    return Landing()


def day(text):
    start = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    return Window(start, start.replace(day=start.day + 1))


def facts(lab, source, rows):
    """A pipeline that copies the source's window into the lake."""
    pipeline = Pipeline("shop", grain=Day)
    target = Table(lab.name("facts"), partition=Day("order_date"), key=["order_id"], write=Overwrite())
    pipeline.step(name="facts", reads={"orders": source}, writes=target)(rows)
    return pipeline


def as_they_are(orders):
    return orders


def order(number, day="2026-04-25", hour=10):
    return f"{number},{number}.50,{day}T{hour:02d}:00:00Z"


def test_csv_folders_are_partitions_and_only_the_windows_folder_is_read(lab, landing):
    landing.store(**{"option.header": "true"})
    for name in ("2026-04-24", "2026-04-25", "2026-04-26"):
        landing.put(f"in/orders/order_date={name}/a.csv", f"order_id,amount,ordered_at\n{order(1, name)}\n")
    source = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    plans = []

    def keep_plan(orders):
        plans.append(orders._jdf.queryExecution().executedPlan().toString())
        return orders

    lab.run(facts(lab, source, keep_plan), "2026-04-25")
    assert lab.rows("facts") == [
        {
            "order_id": 1,
            "amount": Decimal("1.50"),
            "ordered_at": datetime(2026, 4, 25, 10),
            "order_date": date(2026, 4, 25),
        }
    ]
    filters = plans[0].split("PartitionFilters: [")[1].split("]")[0]
    assert "order_date" in filters


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_only_the_files_of_the_window_are_opened(lab, landing, kind):
    store = landing.store(kind)
    folder = landing.folder / "in" / "orders"
    lab.spark.sql(
        "select id as order_id, cast(id as decimal(10,2)) as amount, timestamp'2026-04-01 10:00:00' as ordered_at, "
        "date_add(date'2026-04-01', cast(id % 5 as int)) as order_date from range(50)"
    ).repartition(1).write.partitionBy("order_date").format(kind).save(str(folder))
    table = Table("drop.in.orders", partition=Day("order_date"), schema=None if kind == "parquet" else SCHEMA)
    rows = store.read(lab.spark, table, store.version(lab.spark, table))
    cut = rows.where(partitions_between(table, day("2026-04-03"), UTC))
    assert cut.count() == 10
    assert files_read(cut) == 1


def files_read(rows):
    rows._jdf.queryExecution().executedPlan().executeCollect()
    plan = rows._jdf.queryExecution().executedPlan()
    leaf = plan.collectLeaves().apply(0)
    return leaf.metrics().get("numFiles").get().value()


def test_rows_are_cut_by_event_time_where_there_are_no_folders(lab, landing):
    landing.store(**{"option.header": "true", "option.delimiter": ";"})
    landing.put(
        "in/orders/all.csv",
        "order_id;amount;ordered_at;order_date\n"
        "1;1.00;2026-04-24T23:59:59.999999Z;2026-04-24\n2;2.00;2026-04-25T00:00:00Z;2026-04-25\n"
        "3;3.00;2026-04-26T00:00:00Z;2026-04-26\n",
    )
    source = Table("drop.in.orders", event_time="ordered_at", schema=SCHEMA)
    lab.run(facts(lab, source, as_they_are), "2026-04-25")
    assert [row["order_id"] for row in lab.rows("facts")] == [2]


def test_a_time_without_an_offset_is_utc_whatever_zone_the_pipeline_has(lab, landing):
    store = landing.store()
    landing.put("in/orders/a.csv", "1,2026-04-25 10:00:00\n")
    table = Table("drop.in.orders", schema="order_id BIGINT, at TIMESTAMP")
    session = lab.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    rows = store.read(session, table, "now")
    assert rows.selectExpr("unix_timestamp(at)").collect()[0][0] == 1777111200


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("csv", "1,2.00,2026-04-25T10:00:00Z\nten,3.00,2026-04-25T10:00:00Z\n"),
        ("csv", "1,2.00\n"),
        ("csv", "1,2.00,2026-04-25T10:00:00Z,more\n"),
        ("json", '{"order_id": 1}\n{"order_id": \n'),
        ("json", '{"order_id": "ten"}\n'),
    ],
)
def test_a_record_that_cannot_be_read_stops_the_run(lab, landing, kind, text):
    landing.store(kind)
    landing.put("in/orders/order_date=2026-04-25/a.txt", text)
    source = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    with pytest.raises(StepFailed, match=r"while reading file .*/order_date=2026-04-25/a.txt"):
        lab.run(facts(lab, source, as_they_are), "2026-04-25")


def test_a_header_in_another_order_is_an_error_and_not_other_columns(lab, landing):
    landing.store(**{"option.header": "true"})
    landing.put("in/orders/a.csv", "amount,order_id\n1,2\n")
    source = Table("drop.in.orders", event_time="ordered_at", schema=SCHEMA)
    with pytest.raises(StepFailed, match=r"while reading file .*/orders/a.csv"):
        lab.run(facts(lab, source, as_they_are), "2026-04-25")


def test_text_files_without_a_declared_schema_are_refused(lab, landing):
    store = landing.store()
    landing.put("in/orders/a.csv", "1\n")
    with pytest.raises(SchemaRefused, match="may give another type tomorrow"):
        store.read(lab.spark, Table("drop.in.orders"), "now")


def test_parquet_takes_the_columns_of_all_files(lab, landing):
    store = landing.store("parquet")
    folder = str(landing.folder / "in" / "orders")
    lab.spark.sql("select 1L as a").write.mode("append").parquet(folder)
    lab.spark.sql("select 2L as a, 'x' as b").write.mode("append").parquet(folder)
    rows = store.read(lab.spark, Table("drop.in.orders"), "now")
    assert sorted(map(tuple, rows.collect())) == [(1, None), (2, "x")]


def test_an_absent_folder_does_not_exist_and_an_empty_one_holds_nothing(lab, landing):
    store = landing.store()
    table = Table("drop.in.orders", schema=SCHEMA)
    assert not store.exists(lab.spark, table)
    assert store.version(lab.spark, table) is None
    (landing.folder / "in" / "orders").mkdir(parents=True)
    assert store.exists(lab.spark, table)
    assert store.version(lab.spark, table) is None
    assert store.read(lab.spark, table, None).collect() == []


def test_an_absent_folder_stops_the_run_with_a_sentence(lab, landing):
    landing.store()
    source = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    with pytest.raises(StoreRefused, match="does not exist"):
        lab.run(facts(lab, source, as_they_are), "2026-04-25")


def test_the_fingerprint_follows_each_partitions_files_alone(lab, landing):
    store = landing.store()
    for name in ("2026-04-24", "2026-04-25", "2026-04-26"):
        landing.put(f"in/orders/order_date={name}/a.csv", "1,1.0,\n")
    landing.put("in/orders/_SUCCESS", "")
    landing.put("in/orders/order_date=2026-04-25/.half", "")
    landing.put("in/orders/order_date=2026-04-25/b.csv._COPYING_", "")
    table = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    window = Window(day("2026-04-25").start, day("2026-04-27").end)
    target = Target.of(table, Scope.of(window), UTC)
    before = store.files(lab.spark, target, None)
    first, second, third = target.partitions
    assert before[first]
    assert before[second]
    assert before[third] == ""
    changed = landing.put("in/orders/order_date=2026-04-26/a.csv", "2,1.0,\n")
    os.utime(changed, (1, 1))
    landing.put("in/orders/order_date=2026-04-24/more.csv", "9,1.0,\n")
    after = store.files(lab.spark, target, None)
    assert after[first] == before[first]
    assert after[second] != before[second]
    assert after[third] == ""


def test_hours_are_folders_of_utc_instants(lab, landing):
    store = landing.store("parquet")
    lab.spark.sql("select 1L as order_id, timestamp'2026-04-25 10:00:00Z' as hour").write.partitionBy("hour").parquet(
        str(landing.folder / "in" / "orders")
    )
    table = Table("drop.in.orders", partition=Hour("hour"))
    start = datetime(2026, 4, 25, 9, tzinfo=timezone.utc)
    target = Target.of(table, Scope.of(Window(start, start.replace(hour=11))), UTC)
    nine, ten = store.files(lab.spark, target, None).values()
    assert (nine, bool(ten)) == ("", True)
    session = lab.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert store.read(session, table, "now").selectExpr("unix_timestamp(hour)").collect()[0][0] == 1777111200


def test_dimensions_are_folders_too(lab, landing):
    store = landing.store()
    landing.put("in/orders/tenant=a%2Fb/order_date=2026-04-25/a.csv", "1,1.0,\n")
    landing.put("in/orders/tenant=c/order_date=2026-04-25/a.csv", "1,1.0,\n")
    table = Table(
        "drop.in.orders", partition=Day("order_date"), dimensions=["tenant"], schema=SCHEMA + ", tenant STRING"
    )
    whole, one, other, none = (
        store.files(lab.spark, Target.of(table, Scope.of(day("2026-04-25"), which), UTC), None).popitem()[1]
        for which in ({}, {"tenant": "a/b"}, {"tenant": "c"}, {"tenant": "d"})
    )
    assert none == ""
    assert len({whole, one, other}) == 3
    rows = store.read(lab.spark, table, "now").where("tenant = 'a/b'")
    assert rows.count() == 1


def test_files_beside_the_partition_folders_are_refused(lab, landing):
    store = landing.store()
    landing.put("in/orders/a.csv", "1,1.0,\n")
    table = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    with pytest.raises(StoreRefused, match=r"is not in a folder order_date="):
        store.files(lab.spark, Target.of(table, Scope.of(day("2026-04-25")), UTC), None)


def test_folders_that_are_no_dates_are_refused(lab, landing):
    store = landing.store("parquet")
    lab.spark.sql("select 1L as order_id, 20260425 as order_date").write.partitionBy("order_date").parquet(
        str(landing.folder / "in" / "orders")
    )
    table = Table("drop.in.orders", partition=Day("order_date"))
    with pytest.raises(SchemaRefused, match="order_date is int, but a partition by day is a date"):
        store.read(lab.spark, table, "now")


def test_a_late_file_makes_its_day_stale_and_no_other(lab, landing):
    landing.store()
    for name in ("2026-04-25", "2026-04-26"):
        landing.put(f"in/orders/order_date={name}/a.csv", order(1, name) + "\n")
    pipeline = facts(lab, Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA), as_they_are)
    for name in ("2026-04-25", "2026-04-26"):
        assert lab.run(pipeline, name).steps[0].status == "published"
    landing.put("in/orders/order_date=2026-04-26/late.csv", order(2, "2026-04-26") + "\n")
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "fresh"
    assert lab.run(pipeline, "2026-04-26", skip_fresh=True).steps[0].status == "published"
    assert len(lab.rows("facts")) == 3


def test_a_file_of_the_window_that_changes_while_it_is_read_is_read_again(lab, landing):
    landing.store()
    landing.put("in/orders/order_date=2026-04-25/a.csv", order(1) + "\n")
    calls = []

    def meanwhile(orders):
        if not calls:
            orders.count()
            landing.put("in/orders/order_date=2026-04-25/late.csv", order(2) + "\n")
        calls.append(1)
        return orders

    source = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    result = lab.run(facts(lab, source, meanwhile), "2026-04-25")
    assert (len(calls), result.steps[0].attempts) == (2, 2)
    assert [row["order_id"] for row in lab.rows("facts")] == [1, 2]


def test_tomorrows_file_that_arrives_meanwhile_disturbs_nobody(lab, landing):
    landing.store()
    landing.put("in/orders/order_date=2026-04-25/a.csv", order(1) + "\n")
    calls = []

    def meanwhile(orders):
        calls.append(landing.put("in/orders/order_date=2026-04-26/a.csv", order(2, "2026-04-26") + "\n"))
        return orders

    source = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    lab.run(facts(lab, source, meanwhile), "2026-04-25")
    assert len(calls) == 1


def test_writing_to_files_is_refused_with_a_store_that_can(lab, landing):
    landing.store()
    pipeline = Pipeline("shop", grain=Day)
    target = Table("drop.in.facts", partition=Day("order_date"), key=["order_id"], write=Overwrite())
    source = Table("drop.in.orders", partition=Day("order_date"), schema=SCHEMA)
    pipeline.step(name="facts", reads={"orders": source}, writes=target)(as_they_are)
    with pytest.raises(StoreRefused, match=r'it is read-only\n.*\n.*"parquet"'):
        lab.run(pipeline, "2026-04-25")


def test_odd_names_of_folders_are_no_patterns(lab, landing):
    store = landing.store()
    chosen = random.Random(4)
    odd = [
        "a*b", "a?b", "{a,b}", "[ab]", "it's", 'say "hi"', "a%20b", "x=y", "ü ñ 漢", "a#b", "a:b", "a,b",
        *("".join(chosen.choices("*?[]{}%#=,'\" aé", k=6)).strip() + "z" for _ in range(6)),
    ]  # fmt: skip
    for number, name in enumerate(odd):
        landing.put(f"in/{name}/data.csv", f"{number}\n")
    for number, name in enumerate(odd):
        table = Table(f"drop.in.`{name}`", schema="n BIGINT")
        version = store.version(lab.spark, table)
        assert version, name
        assert [row[0] for row in store.read(lab.spark, table, version).collect()] == [number], name


def test_a_listing_survives_a_folder_that_goes_meanwhile(lab, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_text("")
    found = listing.files(listing.InHadoop(lab.spark, str(tmp_path / "a")))
    assert next(found).path == "one"
    (tmp_path / "a" / "b").rmdir()
    assert list(found) == []


def test_settings_that_are_missing_or_cannot_be_set_are_named(tmp_path):
    for options, said in [
        ({}, "needs path"),
        ({"path": "x"}, "format is None"),
        ({"path": "x", "format": "xml"}, "must be one of: csv, json, parquet"),
        ({"path": "x", "format": "csv", "option.inferSchema": "true"}, "option.inferSchema cannot be set"),
    ]:
        with pytest.raises(ConfigError) as caught:
            open_store(StoreConfig("drop", "files", options), tmp_path)
        assert said in str(caught.value)


def test_options_are_read_from_the_configuration_with_or_without_quotes(tmp_path: Path):
    file = tmp_path / "twice.toml"
    file.write_text(
        '[stores.drop]\ntype = "files"\npath = "in"\nformat = "csv"\noption.header = true\n"option.sep" = ";"'
    )
    assert load(file).stores["drop"].options == {
        "path": "in",
        "format": "csv",
        "option.header": "true",
        "option.sep": ";",
    }
