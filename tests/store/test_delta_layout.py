"""How names, scopes and partitions are spelled for Delta: folders, conditions, transaction ids."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from twice import Day, Merge, Overwrite, Table, Window
from twice.config import StoreConfig
from twice.engine.spark import jars
from twice.engine.stores import spark_settings
from twice.errors import ConfigError, EnvironmentProblem
from twice.model.names import TableName
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.store.delta.claims import application
from twice.store.delta.layout import Layout, conditions, inside, literal
from twice.store.delta.locations import Locations, folder
from twice.store.delta.settings import Settings, read_settings

UTC = timezone.utc
DAY = Window(datetime(2026, 4, 25, tzinfo=UTC), datetime(2026, 4, 26, tzinfo=UTC))
SCHEMA = T.StructType().add("d", T.DateType()).add("at", T.TimestampType()).add("tenant", T.StringType())

odd = st.text(min_size=1, max_size=20)


@given(odd, odd)
def test_different_names_have_different_folders(left, right):
    assert (folder(left) == folder(right)) == (left == right)


@given(odd)
def test_a_folder_is_one_visible_folder_whatever_the_name_holds(name):
    spelled = folder(name)
    assert spelled == Path("root", spelled).name
    assert not set(spelled) & set("/\\`'\"@:%?#*[]{}\n ")
    assert not spelled.startswith(("_", "."))


@given(odd, odd)
def test_a_scope_has_a_name_of_its_own_in_one_line(left, right):
    one, other = (application(Scope(DAY, (("tenant", value),))) for value in (left, right))
    assert len(one.splitlines()) == 1
    assert "," not in one
    assert (one == other) == (left == right)


def test_no_table_lies_inside_another():
    places = Locations(Settings("/data"))
    inner = places.path(TableName(("w", "a", "b", "c")))
    assert inner == "/data/a.b/c"
    assert not inner.startswith(places.path(TableName(("w", "a", "b"))) + "/")
    assert places.path(TableName(("w", "a.b", "c"))) == "/data/a~2e~b/c"


def test_conditions_quote_names_and_values():
    table = Table("w.s.t", partition=Day("order`s d"), dimensions=["ten'ant"], write=Overwrite())
    target = Target.of(table, Scope(DAY, (("ten'ant", "it's \\ ${x}"),)), ZoneInfo("UTC"))
    assert conditions(target) == [
        "`ten'ant` = 'it\\'s \\\\ \\u0024{x}'",
        "`order``s d` >= DATE '2026-04-25'",
        "`order``s d` < DATE '2026-04-26'",
    ]


def test_an_instant_is_spelled_in_utc_wherever_it_comes_from():
    berlin = datetime(2026, 4, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert literal(berlin) == "TIMESTAMP '2026-04-25 00:30:00.000000 UTC'"


def test_a_files_partition_is_read_as_the_log_spells_it():
    layout = Layout.of(SCHEMA, ["d", "at", "tenant"], "Europe/Berlin", mapped=False)
    spelled = {"d": "2026-04-25", "at": "2026-04-25T10:00:00.000000Z", "tenant": "acme"}
    found = {"d": date(2026, 4, 25), "at": datetime(2026, 4, 25, 10, tzinfo=UTC), "tenant": "acme"}
    assert layout.partition(spelled) == found
    # An older Delta wrote instants in the zone of the session, without saying which.
    assert layout.partition({**spelled, "at": "2026-04-25 12:00:00"}) == found
    assert layout.partition({"d": None, "at": None, "tenant": ""}) == {"d": None, "at": None, "tenant": None}
    assert layout.partition({**spelled, "d": "not a date"})["d"] == "not a date"


def test_a_mapped_column_is_found_by_its_name_in_the_files():
    schema = T.StructType([T.StructField("d", T.DateType(), True, {"delta.columnMapping.physicalName": "col-1"})])
    assert Layout.of(schema, ["d"], "UTC", mapped=True).partition({"col-1": "2026-04-25"}) == {"d": date(2026, 4, 25)}
    assert Layout.of(schema, ["d"], "UTC", mapped=False).partition({"d": "2026-04-25"}) == {"d": date(2026, 4, 25)}


def test_a_file_belongs_to_a_partition_of_the_target_or_to_none():
    table = Table("w.s.t", partition=Day("d"), dimensions=["tenant"], write=Overwrite())
    target = Target.of(table, Scope(DAY, (("tenant", "acme"),)), ZoneInfo("UTC"))
    assert target.place({"d": date(2026, 4, 25), "tenant": "acme"}) == target.partitions[0]
    assert target.place({"d": date(2026, 4, 26), "tenant": "acme"}) is None
    assert target.place({"d": date(2026, 4, 25), "tenant": "bolt"}) is None
    assert target.place({"d": date(2026, 4, 25), "tenant": None}) is None
    assert target.place({"d": date(2026, 4, 25)}) is None


def test_a_file_lies_inside_a_scope_as_the_conditions_say():
    table = Table("w.s.t", partition=Day("d"), dimensions=["tenant"], write=Overwrite())
    one = Target.of(table, Scope(DAY, (("tenant", "None"),)), ZoneInfo("UTC"))
    assert inside(one, {"d": date(2026, 4, 25), "tenant": "None"})
    for other in (
        {"d": date(2026, 4, 24), "tenant": "None"},
        {"d": date(2026, 4, 26), "tenant": "None"},
        {"d": None, "tenant": "None"},
        {"d": "not a date", "tenant": "None"},
        {"d": date(2026, 4, 25), "tenant": None},
        {"d": date(2026, 4, 25), "tenant": "acme"},
    ):
        assert not inside(one, other), other
    every = Target.of(table, Scope(DAY), ZoneInfo("UTC"))
    assert inside(every, {"d": date(2026, 4, 25), "tenant": None})
    whole = Target.of(Table("w.s.t", key=["id"], write=Merge(version="u")), Scope(DAY), ZoneInfo("UTC"))
    assert inside(whole, {})


@pytest.mark.parametrize(
    ("options", "root", "local", "side_by_side"),
    [
        ({"path": "w/delta/"}, "/p/w/delta", True, False),
        ({}, "/p/.twice/delta", True, False),
        ({"path": "hdfs://host/w/"}, "hdfs://host/w", False, True),
        ({"path": "abfss://box@host/w"}, "abfss://box@host/w", False, True),
        ({"path": "s3a://bucket/w"}, "s3a://bucket/w", False, False),
        ({"catalog": "spark"}, None, False, False),
    ],
)
def test_only_where_commits_are_atomic_scopes_are_written_side_by_side(options, root, local, side_by_side):
    settings = read_settings(StoreConfig("w", "delta", options), Path("/p"))
    assert (settings.root, settings.local, settings.side_by_side) == (root, local, side_by_side)


@pytest.mark.parametrize("options", [{"catalog": "hive"}, {"catalog": "spark", "path": "x"}], ids=str)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ConfigError, match=r"\[stores.w\]"):
        read_settings(StoreConfig("w", "delta", options), Path("/p"))


def test_spark_is_told_of_both_extensions_and_gets_every_jar():
    stores = [StoreConfig("lake", "iceberg", {}), StoreConfig("w", "delta", {"path": "x"})]
    extensions = spark_settings(stores, Path("/p"))["spark.sql.extensions"].split(",")
    assert [name.rpartition(".")[2] for name in extensions] == [
        "IcebergSparkSessionExtensions",
        "DeltaSparkSessionExtension",
    ]
    packages = jars.default_packages("4.1.4", stores)
    assert {"io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"} <= set(packages)
    with pytest.raises(EnvironmentProblem, match=r"not tested with Spark 4\.0"):
        jars.default_packages("4.0.1", stores)


def test_two_scopes_never_share_a_name_in_the_log():
    assert application(Scope.of(None, {"a": "x b=y"})) != application(Scope.of(None, {"a": "x", "b": "y"}))
