"""Whole pipelines into Hive-style folders, as plain Spark reads them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tests.support.meanwhile import meanwhile
from tests.support.tables import extracting
from twice import Day, Hour, Merge, Overwrite, Pipeline, Table, Whole
from twice.config import StoreConfig
from twice.errors import ConfigError, Conflict, EnvironmentProblem, OutOfScope, SchemaRefused, StoreRefused
from twice.store.parquet import staging
from twice.store.parquet.settings import root_of

pytestmark = pytest.mark.spark

DAY, NEXT, END = "2026-04-25", "2026-04-26", "2026-04-27"


class ParquetTables:
    """The tables of a Parquet store beside the lake."""

    def __init__(self, lab) -> None:
        self.lab, self.root = lab, lab.folder / "plain"
        lab.declare(f'[stores.files]\ntype = "parquet"\npath = "{self.root}"')

    def run(self, pipeline: Pipeline, for_: str | None = DAY, **how: Any):
        return self.lab.run(pipeline, for_, **how)

    def store(self, table: Table):
        return self.lab.runtime.stores.of(table)

    def run_both(self, pipeline: Pipeline) -> None:
        for day in (DAY, NEXT):
            self.run(pipeline, day)

    def fails(self, kind: type[Exception], pipeline: Pipeline, **how: Any):
        """Run what must be refused; return the error."""
        with pytest.raises(kind) as caught:
            self.run(pipeline, **how)
        assert self.lab.ledger.leases.list() == []
        return caught.value

    def folder(self, table: str = "t", space: str = "core") -> Path:
        return self.root / space / table

    def read(self, table: str = "t"):
        """Read as somebody does who knows nothing of twice."""
        return self.lab.spark.newSession().read.parquet(str(self.folder(table)))

    def rows(self, *columns: str, table: str = "t") -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.read(table).select(*columns).collect()), key=str)

    def files(self, table: str = "t") -> list[str]:
        root = self.folder(table)
        return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet"))

    def leftovers(self) -> list[str]:
        return [
            str(path) for part in ("stage", "aside", "trash", "work") for path in self.root.glob(f"*/_twice/*/{part}/*")
        ]


@pytest.fixture
def tables(lab):
    return ParquetTables(lab)


def table(name: str = "files.core.t", **how: Any) -> Table:
    return Table(name, **{"partition": Day("d"), "key": ["id"], "write": Overwrite(), **how})


def query(target: Table, text: str) -> Pipeline:
    return extracting(target, lambda spark, window: spark.sql(text))


def of_day(target: Table, values: str) -> Pipeline:
    """Make rows (id, v) of whichever day is run."""
    return extracting(
        target,
        lambda spark, window: spark.sql(f"select * from values {values} as t(id, v)").withColumn(
            "d", F.lit(window.start.date())
        ),
    )


def status(result) -> list[tuple[str, int]]:
    return [(step.status, step.rows) for step in result.steps]


def test_s02_a_day_lands_where_every_reader_finds_it_and_again_changes_nothing(tables):
    first = tables.run(of_day(table(), "(1, 'a'), (2, null)"))
    assert status(first) == [("published", 2)]
    assert tables.rows("id", "v", "d") == [(1, "a", tables.read().first()["d"]), (2, None, tables.read().first()["d"])]
    before = tables.files()
    assert all(file.startswith("d=2026-04-25/") for file in before)
    again = tables.run(of_day(table(), "(2, null), (1, 'a')"))
    assert status(again) == [("unchanged", 2)]
    assert again.steps[0].digest == first.steps[0].digest
    assert tables.files() == before
    assert tables.leftovers() == []


@pytest.mark.full
def test_s04_neighbours_keep_their_very_files_in_folders(tables):
    tables.run_both(of_day(table(), "(1, 'a')"))
    neighbours = [file for file in tables.files() if NEXT in file]
    assert neighbours
    tables.run(of_day(table(), "(1, 'b')"))
    assert [file for file in tables.files() if NEXT in file] == neighbours
    assert tables.rows("id", "v") == [(1, "a"), (1, "b")]


@pytest.mark.full
def test_s06_an_empty_day_removes_its_partition(tables):
    tables.run_both(of_day(table(), "(1, 'a')"))
    none = extracting(table(), lambda spark, window: spark.sql("select 1 id, 'a' v, date'2026-04-25' d where false"))
    assert status(tables.run(none)) == [("published", 0)]
    assert [path.name for path in tables.folder().iterdir() if path.is_dir()] == [f"d={NEXT}"]
    assert status(tables.run(none)) == [("unchanged", 0)]


@pytest.mark.full
def test_s09_a_whole_table_is_replaced_as_one_folder_and_old_content_does_not_come_back(tables):
    target = Table("files.core.t", key=["id"], write=Whole())
    tables.run(query(target, "select 1 id, 'a' v"), DAY)
    assert status(tables.run(query(target, "select 2 id, 'b' v"), NEXT)) == [("published", 1)]
    assert tables.rows("id", "v") == [(2, "b")]
    assert [step.status for step in tables.run(query(target, "select 1 id, 'a' v"), DAY).steps] == ["superseded"]
    assert status(tables.run(query(target, "select 2 id, 'b' v where false"), NEXT)) == [("published", 0)]
    assert tables.rows("id", "v") == []
    assert tables.leftovers() == []


TENANTS = ["..", "a/b", "it's", "007", 'say "x"', "Zoë ☃", "50%", "line\nbreak", "back\\slash", "a}b{c"]


def test_s10_tenants_with_difficult_names_in_folders(tables):
    target = table(dimensions=["tenant"], key=["id"])

    def rows(spark, window):
        made = spark.createDataFrame([(n, name, 1) for n, name in enumerate(TENANTS)], "id int, tenant string, v int")
        return made.withColumn("d", F.lit(window.start.date()))

    tables.run(extracting(target, rows))
    folder = tables.folder() / f"d={DAY}"
    assert len(list(folder.iterdir())) == len(TENANTS)
    for name in (TENANTS[0], TENANTS[5], TENANTS[7]):

        def one(spark, window, name=name):
            return rows(spark, window).where(F.col("tenant") == name).withColumn("v", F.lit(2))

        assert status(tables.run(extracting(target, one), dimensions={"tenant": name})) == [("published", 1)]
    store = tables.store(target)
    found = store.read(tables.lab.spark, target, store.version(tables.lab.spark, target))
    got = {row["tenant"]: row["v"] for row in found.collect()}
    assert got == {name: 2 if name in (TENANTS[0], TENANTS[5], TENANTS[7]) else 1 for name in TENANTS}
    assert tables.leftovers() == []


def test_s11_a_row_outside_the_scope_is_refused_before_any_folder_moves(tables):
    tables.run(of_day(table(), "(1, 'a')"))
    before = tables.files()
    for value, shown in (("date'2026-04-26'", "d=2026-04-26"), ("cast(null as date)", "d=null")):
        # One task writes all rows, so the files of both folders have the same name
        rows = f"select /*+ COALESCE(1) */ int(id) id, 'b' v, if(id = 4, {value}, date'2026-04-25') d from range(1, 5)"
        error = tables.fails(OutOfScope, query(table(), rows))
        assert f"{shown}:" in error.message
        assert "returned 1 row outside" in error.message
        assert [f"id={number}" in error.message for number in range(1, 5)] == [False, False, False, True]
    assert tables.files() == before
    assert tables.leftovers() == []
    assert tables.lab.ledger.leases.list() == []


def test_an_empty_tenant_cannot_be_a_folder_and_is_refused(tables):
    target = table(dimensions=["tenant"])
    error = tables.fails(OutOfScope, query(target, "select 1 id, date'2026-04-25' d, '' tenant"))
    assert "tenant=null or an empty text" in error.message
    assert "a parquet store cannot tell an empty text in tenant from null" in error.next_step


@pytest.mark.full
def test_hours_are_named_in_utc_whatever_the_sessions_zone(tables):
    target = table("files.core.t", partition=Hour("h"))

    def hours(spark, window):
        return spark.createDataFrame([(n,) for n in range(2)], "id int").withColumn(
            "h",
            F.timestamp_micros(
                F.lit(int(window.start.timestamp()) * 10**6) + F.col("id").cast("bigint") * 3600 * 10**6
            ),
        )

    made = extracting(target, hours, time_zone="America/New_York")
    assert status(tables.run(made)) == [("published", 2)]
    names = sorted(path.name for path in tables.folder().iterdir() if path.is_dir())
    assert names == [f"h={DAY} 04%3A00%3A00", f"h={DAY} 05%3A00%3A00"]
    assert status(tables.run(made)) == [("unchanged", 2)]


def as_it_is(rows):
    return rows


WIDE = """select 1 id, date'2026-04-25' d, cast(1.10 as decimal(20,2)) amount, timestamp'2026-04-25 01:02:03.456789' at,
  timestamp_ntz'2026-04-25 01:02:03.456789' local_at, named_struct('a', 1, 'b', array(1, null)) nested,
  map('k', cast(null as int)) m, array(named_struct('x', 'y')) list, cast('x' as binary) raw, true flag,
  cast(null as string) nothing, '' empty, 1.5D real"""


def test_every_type_comes_back_as_it_was(tables):
    target = table()
    assert status(tables.run(query(target, WIDE))) == [("published", 1)]
    assert status(tables.run(query(target, WIDE))) == [("unchanged", 1)]
    wanted = tables.lab.spark.sql(WIDE)
    store = tables.store(target)
    found = store.read(tables.lab.spark, target, "1")
    assert found.columns == wanted.columns
    assert found.first() == wanted.first()


def test_columns_may_be_added_and_nothing_else(tables):
    target = table()
    tables.run_both(of_day(target, "(1, 'a')"))
    wider = query(target, "select 1 id, 'a' v, 7 extra, date'2026-04-25' d")
    assert status(tables.run(wider)) == [("published", 1)]
    store = tables.store(target)
    found = store.read(tables.lab.spark, target, store.version(tables.lab.spark, target))
    assert sorted((row["d"].isoformat(), row["extra"]) for row in found.collect()) == [(DAY, 7), (NEXT, None)]
    before = tables.files()
    for text, said in (
        ("select 1 id, 7 extra, date'2026-04-25' d", "has the column v, which the step no longer returns"),
        ("select 1 id, 1 v, 7 extra, date'2026-04-25' d", "column v is string, but the step returns int"),
        ("select 1 id, 'a' v, null extra, date'2026-04-25' d", "column extra is null in every row"),
        ("select 1 id, 'a' v, 7 extra, 'x' V, date'2026-04-25' d", "two columns named v, V"),
        ("select 1 id, 'a' v, 7 extra, '2026-04-25' d", "partition column d is string"),
    ):
        assert said in tables.fails(SchemaRefused, query(target, text)).message
    assert tables.files() == before
    only_folders = query(table("files.core.u", key=["d"]), "select date'2026-04-25' d")
    assert "nothing to put into the files" in tables.fails(SchemaRefused, only_folders).message


def test_columns_of_an_attempt_that_failed_bind_nobody(tables):
    stray = query(table(), "select 1 id, 'wrong' v, date'2020-01-01' d")
    tables.fails(OutOfScope, stray)
    assert status(tables.run(query(table(), "select 1 id, 2 v, date'2026-04-25' d"))) == [("published", 1)]
    assert tables.rows("id", "v") == [(1, 2)]


def test_what_somebody_edits_by_hand_is_noticed_and_replaced(tables):
    tables.run(of_day(table(), "(1, 'a')"))
    tables.lab.spark.sql("select 9 id, 'by hand' v").write.mode("append").parquet(str(tables.folder() / f"d={DAY}"))
    assert len(tables.rows("id")) == 2
    assert status(tables.run(of_day(table(), "(1, 'a')"), skip_fresh=True)) == [("published", 1)]
    assert tables.rows("id", "v") == [(1, "a")]


def test_folders_that_spark_wrote_are_adopted(tables):
    folder = tables.folder()
    old = tables.lab.spark.sql("select 1 id, 'old' v, date'2026-04-25' d union all select 2, 'old', date'2026-04-26'")
    old.write.partitionBy("d").parquet(str(folder))
    assert status(tables.run(query(table(), "select 1 id, 'new' v, date'2026-04-25' d"))) == [("published", 1)]
    assert tables.rows("id", "v") == [(1, "new"), (2, "old")]


def test_folders_that_are_not_the_contracts_are_refused(tables):
    made = tables.lab.spark.sql("select 1 id, 'a' v, date'2026-04-25' d, 'x' region")
    made.write.partitionBy("region").parquet(str(tables.folder("other")))
    made.write.parquet(str(tables.folder("flat")))
    made.write.partitionBy("d", "region").parquet(str(tables.folder("deep")))
    for name in ("other", "flat", "deep"):
        error = tables.fails(StoreRefused, of_day(table(f"files.core.{name}"), "(1, 'a')"))
        assert "but its contract says d=…" in error.message
        assert len(tables.files(name)) == 1


def test_a_table_inside_another_tables_folder_is_refused(tables):
    tables.run(of_day(table("files.core.t"), "(1, 'a')"))
    inside = tables.fails(StoreRefused, of_day(table("files.core.t.inner"), "(1, 'a')"))
    assert "inside the folder of another table" in inside.message
    tables.run(of_day(table("files.deep.er.t"), "(1, 'a')"))
    around = tables.fails(StoreRefused, of_day(table("files.deep.er"), "(1, 'a')"))
    assert "around the folders of other tables" in around.message


def test_what_folders_cannot_do_names_the_store_that_can(tables):
    target = Table("files.core.t", key=["id"], write=Merge(version="v"))
    error = tables.fails(StoreRefused, query(target, "select 1 id, 1 v"))
    assert "a parquet store cannot" in error.message
    assert "Iceberg" in error.next_step
    assert not tables.root.exists()


@pytest.mark.parametrize("path", ["s3a://bucket/x", "gs://bucket/x", "abfss://c@a.dfs.core.windows.net/x", "s3://b"])
def test_an_object_store_is_refused_with_iceberg_as_the_way(tmp_path, path):
    with pytest.raises(ConfigError, match="an object store has no rename") as caught:
        root_of(StoreConfig("files", "parquet", {"path": path}), tmp_path)
    assert 'type = "iceberg"' in caught.value.next_step


def test_a_path_is_seen_from_the_configuration_and_odd_settings_are_refused(tmp_path):
    def place(**options: str) -> str:
        return root_of(StoreConfig("files", "parquet", options), tmp_path)

    assert place(path="plain") == str(tmp_path / "plain")
    assert place(path="file:///data/plain") == "/data/plain"
    assert place(path="hdfs://name/data/") == "hdfs://name/data"
    with pytest.raises(ConfigError, match="part of a pattern"):
        place(path="plain*")


def test_a_folder_is_read_by_partition_and_as_one_version(tables):
    source = table()
    tables.run_both(of_day(source, "(1, 'a'), (2, 'b')"))
    seen = []
    target = table("files.core.copy")
    made = Pipeline("copy", grain=Day)

    @made.step(reads={"rows": source}, writes=target)
    def copied(rows):
        seen.append(rows._jdf.queryExecution().executedPlan().toString())
        return rows

    assert status(tables.run(made)) == [("published", 2)]
    assert "PartitionFilters: [isnotnull(d" in seen[0]
    assert "PushedFilters: []" in seen[0]
    assert status(tables.run(made)) == [("unchanged", 2)]
    plain = Pipeline("copy", grain=Day)
    plain.step(reads={"rows": source}, writes=target)(as_it_is)
    assert status(tables.run(plain)) == [("unchanged", 2)]
    assert status(tables.run(plain, skip_fresh=True)) == [("fresh", 2)]


@pytest.mark.full
def test_an_input_that_moves_while_it_is_read_is_a_conflict_and_read_again(tables):
    source, target = table(), table("files.core.copy")
    tables.run(of_day(source, "(1, 'a')"))
    moved = []
    made = Pipeline("copy", grain=Day)

    @made.step(reads={"rows": source}, writes=target)
    def copied(rows):
        if not moved:
            moved.append(True)
            rows = rows.localCheckpoint()
            meanwhile(lambda: tables.run(of_day(source, "(1, 'b')")))
        return rows

    result = tables.run(made)
    assert (result.steps[0].status, result.steps[0].attempts) == ("published", 2)
    assert tables.rows("id", "v", table="copy") == [(1, "b")]


def test_earlier_versions_are_gone_and_say_so(tables):
    target = table()
    tables.run(of_day(target, "(1, 'a')"))
    tables.run(of_day(target, "(1, 'b')"))
    store = tables.store(target)
    assert store.version(tables.lab.spark, target) == "2"
    with pytest.raises(Conflict, match="moved on from version 1 to 2"):
        store.read(tables.lab.spark, target, "1")
    absent = replace(target, name="files.core.absent")
    assert not store.exists(tables.lab.spark, absent)
    assert store.version(tables.lab.spark, absent) is None
    assert store.fence(tables.lab.spark, absent, 1) is None
    with pytest.raises(StoreRefused, match="does not exist"):
        store.read(tables.lab.spark, absent, None)
    assert isinstance(store.read(tables.lab.spark, target, None).schema, T.StructType)
    assert store.read(tables.lab.spark, target, None).count() == 0


def test_names_that_this_java_cannot_write_are_refused(tables, monkeypatch):
    class Java:
        class java:  # noqa: N801
            class lang:  # noqa: N801
                class System:
                    @staticmethod
                    def getProperty(name):  # noqa: N802
                        return "ANSI_X3.4-1968"

    class Session:
        _jvm = Java

    staging.require_unicode(Session, "/plain/t")
    with pytest.raises(EnvironmentProblem, match="its file names are ANSI") as caught:
        staging.require_unicode(Session, "/plain/zoë")
    assert "LC_ALL=C.UTF-8" in caught.value.next_step


@pytest.mark.full
def test_the_same_verbs_work_through_hadoops_client(tables, monkeypatch):
    from twice.store.hadoop import HadoopFiles
    from twice.store.parquet import store as module

    spark = tables.lab.spark
    monkeypatch.setattr(module, "LocalFiles", lambda: HadoopFiles(spark, f"file://{tables.root}"))
    tables.run_both(of_day(table(), "(1, 'a')"))
    assert status(tables.run(of_day(table(), "(1, 'b')"))) == [("published", 1)]
    assert status(tables.run(of_day(table(), "(1, 'b')"))) == [("unchanged", 1)]
    assert tables.rows("id", "v") == [(1, "a"), (1, "b")]
    assert tables.leftovers() == []
    shutil.rmtree(tables.root / "core" / "_twice")
    assert status(tables.run(of_day(table(), "(1, 'c')"))) == [("published", 1)]
