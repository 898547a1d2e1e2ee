"""Tables and views that Spark already knows, read as a source."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, timezone
from zoneinfo import ZoneInfo

import pytest

from twice import Day, Overwrite, Pipeline, Table
from twice.config import StoreConfig
from twice.engine.stores import open_store
from twice.errors import StoreRefused
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

pytestmark = pytest.mark.spark
START = datetime(2026, 4, 25, tzinfo=timezone.utc)
DAY = Window(START, START.replace(day=26))


@pytest.fixture
def hive(lab):
    """A store over the session's own catalog, and a database in it."""
    config = StoreConfig("hive", "catalog", {})
    lab.config = dataclasses.replace(lab.config, stores={**lab.config.stores, "hive": config})
    lab.spark.sql(f"create database `{lab.space}` location '{lab.folder}/hive'")
    yield open_store(config, lab.folder)
    lab.spark.sql(f"drop database `{lab.space}` cascade")


def orders(lab):
    lab.spark.sql(
        f"create table `{lab.space}`.orders using parquet partitioned by (order_date) as "
        "select id as order_id, date_add(date'2026-04-23', cast(id % 5 as int)) as order_date from range(50)"
    )
    return Table(f"hive.{lab.space}.orders", partition=Day("order_date"))


def pipeline_of(lab, source):
    pipeline = Pipeline("shop", grain=Day)
    target = Table(lab.name("facts"), partition=Day("order_date"), key=["order_id"], write=Overwrite())
    plans = []

    @pipeline.step(reads={"orders": source}, writes=target)
    def facts(orders):
        plans.append(orders._jdf.queryExecution().executedPlan().toString())
        return orders

    return pipeline, plans


def test_a_catalog_table_feeds_the_lake_and_only_the_windows_partition_is_read(lab, hive):
    pipeline, plans = pipeline_of(lab, orders(lab))
    lab.run(pipeline, "2026-04-25")
    assert {row["order_date"] for row in lab.rows("facts")} == {date(2026, 4, 25)}
    assert len(lab.rows("facts")) == 10
    assert "order_date" in plans[0].split("PartitionFilters: [")[1].split("]")[0]


def test_what_cannot_be_told_is_never_taken_for_fresh(lab, hive):
    pipeline, plans = pipeline_of(lab, orders(lab))
    assert lab.run(pipeline, "2026-04-25").steps[0].status == "published"
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "unchanged"
    assert len(plans) == 2


def test_a_table_cut_by_event_time_is_never_taken_for_fresh_either(lab, hive):
    source = orders(lab)
    table = Table(source.name, event_time="order_date")
    assert hive.seen(lab.spark, table, DAY, ZoneInfo("UTC")) is None
    pipeline, plans = pipeline_of(lab, table)
    assert lab.run(pipeline, "2026-04-25").steps[0].status == "published"
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "unchanged"
    assert len(plans) == 2


def test_no_two_looks_at_a_partition_are_equal(lab, hive):
    target = Target.of(orders(lab), Scope.of(DAY), ZoneInfo("UTC"))
    first, second = (hive.files(lab.spark, target, "unversioned") for _ in range(2))
    assert first.keys() == second.keys() == set(target.partitions)
    assert not set(first.values()) & set(second.values())


def test_a_view_can_be_read(lab, hive):
    orders(lab)
    lab.spark.sql(f"create view `{lab.space}`.`odd_name` as select 1 as n from `{lab.space}`.orders limit 1")
    table = Table(f"hive.{lab.space}.`odd_name`")
    assert [row.n for row in hive.read(lab.spark, table, hive.version(lab.spark, table)).collect()] == [1]


def test_an_absent_table_does_not_exist(lab, hive):
    table = Table(f"hive.{lab.space}.none")
    assert not hive.exists(lab.spark, table)
    assert hive.version(lab.spark, table) is None
    pipeline, _ = pipeline_of(lab, Table(table.name, partition=Day("order_date")))
    with pytest.raises(StoreRefused, match="does not exist"):
        lab.run(pipeline, "2026-04-25")


def test_an_iceberg_table_is_sent_to_its_own_store(lab):
    lab.spark.sql(f"create table {lab.name('t')} (n int) using iceberg")
    store = open_store(StoreConfig("other", "catalog", {"catalog": "lake"}), lab.folder)
    table = Table(f"other.{lab.space}.t")
    assert store.exists(lab.spark, table)
    with pytest.raises(StoreRefused, match=r'type = "iceberg"'):
        store.read(lab.spark, table, "unversioned")


def test_writing_to_a_catalog_is_refused(lab, hive):
    pipeline = Pipeline("shop", grain=Day)
    target = Table(f"hive.{lab.space}.facts", partition=Day("order_date"), key=["order_id"], write=Overwrite())
    pipeline.step(name="facts", reads={"orders": orders(lab)}, writes=target)(lambda orders: orders)
    with pytest.raises(StoreRefused, match="it is read-only"):
        lab.run(pipeline, "2026-04-25")
