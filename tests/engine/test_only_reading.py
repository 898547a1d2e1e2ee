"""A step cannot write, and what leaves a plan inside it is judged like its result."""

from __future__ import annotations

import contextlib
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.functions import expr

from twice import Day, Overwrite, Pipeline, Table, testing
from twice.engine.attempt import interception
from twice.engine.attempt.determinism import inspect_plan
from twice.engine.attempt.only_reading import only_reading
from twice.errors import NotDeterministic, WriteRefused
from twice.model.pipelines import STEP_ATTRIBUTE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RAW = Table("lake.raw.o", partition=Day("d"))


def step_of(function: Any, **how: Any) -> Any:
    pipeline = Pipeline("p", grain=Day)
    out = Table("lake.core.o", partition=Day("d"), write=Overwrite())
    return pipeline.step(reads={"rows": RAW}, writes=out, name="s", **how)(function)


@pytest.fixture
def rows(spark) -> DataFrame:
    return spark.sql("select date'2026-04-25' d, 1 n")


def called(rows: DataFrame, function: Any, **how: Any) -> DataFrame:
    """Call a step and look at its result, as a run does before it stages."""
    step = getattr(step_of(function, **how), STEP_ATTRIBUTE)
    more = {"spark": rows.sparkSession} if "spark" in step.wants else {}
    with only_reading(step, rows.sparkSession):
        result = function(rows=rows, **more)
    inspect_plan(step, result)
    return result


def path_of(folder: Any) -> str:
    return str(folder / "out")


def test_a_step_cannot_write(rows, tmp_path):
    out = path_of(tmp_path)
    writes = {
        "write": lambda rows, spark: rows.write.parquet(out),
        "writeTo": lambda rows, spark: rows.writeTo("lake.x.y").createOrReplace(),
        "writeStream": lambda rows, spark: rows.writeStream,
        "mergeInto": lambda rows, spark: rows.mergeInto("lake.x.y", F.lit(True)),
        "foreach": lambda rows, spark: rows.foreach(print),
        "foreachPartition": lambda rows, spark: rows.foreachPartition(print),
        "saveAsTextFile": lambda rows, spark: rows.rdd.saveAsTextFile(out),
        "createTable": lambda rows, spark: spark.catalog.createTable("t", path=out),
    }
    for name, write in writes.items():

        def writing(rows: DataFrame, spark: SparkSession, write: Any = write) -> DataFrame:
            write(rows, spark)
            return rows

        with pytest.raises(WriteRefused) as refused:
            called(rows, writing)
        assert f".{name}. A step only returns rows" in refused.value.message
        assert refused.value.exit_code == 3
    assert not (tmp_path / "out").exists()


def test_the_error_names_the_line(rows, tmp_path):
    def writing(rows: DataFrame) -> DataFrame:
        rows.select("d").write.mode("overwrite").parquet(path_of(tmp_path))
        return rows

    line = writing.__code__.co_firstlineno + 1
    with pytest.raises(WriteRefused, match=rf"tests/engine/test_only_reading.py:{line}: DataFrame\.write"):
        called(rows, writing)


def test_tables_of_delta_cannot_be_changed_either(rows, monkeypatch):
    class DeltaTable:
        def delete(self):
            raise AssertionError("reached")

    monkeypatch.setitem(sys.modules, "delta", types.ModuleType("delta"))
    monkeypatch.setitem(sys.modules, "delta.tables", types.ModuleType("delta.tables"))
    sys.modules["delta.tables"].DeltaTable = DeltaTable
    interception.wrap_delta()

    def deleting(rows: DataFrame) -> DataFrame:
        DeltaTable().delete()
        return rows

    with pytest.raises(WriteRefused, match=r"DeltaTable\.delete\. A step"):
        called(rows, deleting)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into t select 1",
        "with x as (select 1) insert into t select * from x",
        "insert overwrite directory '{out}' using parquet select 1",
        "create table t using parquet location '{out}' as select 1",
        "create view v as select 1",
        "merge into t using s on t.a = s.a when matched then delete",
        "delete from t",
        "update t set a = 1",
        "drop table if exists t",
        "truncate table t",
        "alter table t add column x int",
        "call lake.system.rollback_to_snapshot('a.b', 1)",
        "execute immediate 'drop table if exists t'",
        "begin insert into t select 1; end",
        "msck repair table t",
        "create database if not exists other",
    ],
)
def test_a_statement_that_writes_is_refused(rows, tmp_path, statement):
    text = statement.format(out=path_of(tmp_path))

    def writing(rows: DataFrame, spark: SparkSession) -> DataFrame:
        spark.sql(text)
        return rows

    with pytest.raises(WriteRefused, match=rf"sql\({statement.split()[0]} …\)"):
        called(rows, writing)
    assert not (tmp_path / "out").exists()


def test_a_step_may_read_plan_and_name_things_in_its_session(rows, spark):
    def reading(rows: DataFrame, spark: SparkSession) -> DataFrame:
        rows.createOrReplaceTempView("r")
        for text in (
            "set spark.sql.shuffle.partitions = 2",
            "create or replace temporary view big as select * from r where n > 0",
            "create or replace temporary function one() returns int return 1",
            "show tables",
            "describe r",
            "explain select 1",
            "cache table big",
            "uncache table big",
            "use default",
        ):
            spark.sql(text)
        day = "2026-04-25"
        spark.sql("select * from {rows} where d = date({day})", rows=rows, day=day)
        assert rows.count() == len(rows.collect()) == len(spark.sql("from big select *").take(5)) == 1
        assert rows.rdd.map(lambda row: row.n).collect() == [1]
        spark.catalog.dropTempView("big")
        return rows.localCheckpoint()

    assert called(rows, reading).count() == 1


def test_a_step_that_swallows_the_refusal_is_refused_all_the_same(rows, tmp_path):
    def stubborn(rows: DataFrame) -> DataFrame:
        for _ in range(2):
            with contextlib.suppress(Exception):
                rows.write.parquet(path_of(tmp_path))
        return rows

    with pytest.raises(WriteRefused):
        called(rows, stubborn)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_after_a_swallowed_refusal_is_still_ctrl_c(rows, tmp_path):
    def interrupted(rows: DataFrame) -> DataFrame:
        with contextlib.suppress(WriteRefused):
            rows.write.parquet(path_of(tmp_path))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        called(rows, interrupted)


def test_a_thread_of_the_step_cannot_write_and_threads_of_others_can(rows, spark, tmp_path):
    frames = [(rows, "mine"), (spark.newSession().sql("select 1 n"), "other")]

    def threaded(rows: DataFrame) -> DataFrame:
        with ThreadPoolExecutor(1) as pool:
            written = [pool.submit(lambda f=f, n=n: f.write.parquet(str(tmp_path / n))) for f, n in frames]
        assert isinstance(written[0].exception(), WriteRefused)
        assert written[1].exception() is None
        return rows

    with pytest.raises(WriteRefused), only_reading(getattr(step_of(threaded), STEP_ATTRIBUTE), spark):
        threaded(rows)
    assert not (tmp_path / "mine").exists()
    assert (tmp_path / "other").exists()
    rows.write.parquet(str(tmp_path / "mine"))  # its code has ended: the framework writes


def test_a_query_that_writes_is_refused_as_a_step(rows, spark):
    pipeline = Pipeline("p", grain=Day)
    out = Table("lake.core.o", partition=Day("d"), write=Overwrite())
    query = "create database if not exists by_step"
    step = pipeline.sql("s", reads={"rows": RAW}, writes=out, query=query)
    with pytest.raises(WriteRefused, match="its query: sql"):
        testing.run(step, "2026-04-25", rows=rows)
    assert not spark.catalog.databaseExists("by_step")


def test_nothing_is_published_by_a_run_whose_step_writes(lab):
    raw = lab.source("raw", "d date, n int", "values (date'2026-04-25', 1)")
    pipeline = Pipeline("p", grain=Day)
    out = Table(lab.name("out"), partition=Day("d"), write=Overwrite())

    @pipeline.step(reads={"rows": raw}, writes=out)
    def copied(rows: DataFrame) -> DataFrame:
        rows.writeTo(lab.name("copy")).create()
        return rows

    with pytest.raises(WriteRefused, match="step copied writes by itself"):
        lab.run(pipeline, "2026-04-25")
    assert not lab.spark.catalog.tableExists(lab.name("copy"))
    assert not lab.spark.catalog.tableExists(lab.name("out"))


CLOCKED = {
    "expr": lambda rows: rows.withColumn("at", expr("timestamp'now'")),
    "selectExpr": lambda rows: rows.selectExpr("*", "date 'today' as at"),
    "where": lambda rows: rows.where("d < date'tomorrow'"),
    "filter": lambda rows: rows.filter("d < date'tomorrow'"),
    "sql": lambda rows: rows.sparkSession.sql("select *, timestamp'now' as at from {rows}", rows=rows),
    "checkpointed": lambda rows: rows.withColumn("r", F.rand()).localCheckpoint(),
    "as an RDD": lambda rows: rows.withColumn("r", F.rand()).rdd.toDF(),
    "fetched": lambda rows: rows.withColumn("at", F.lit(rows.select(F.current_date()).first()[0])),
    "java_method": lambda rows: rows.selectExpr("*", "java_method('java.util.UUID', 'randomUUID') as id"),
    "reflect": lambda rows: rows.selectExpr("*", "reflect('java.lang.System', 'nanoTime') as id"),
    "try_reflect": lambda rows: rows.selectExpr("*", "try_reflect('java.lang.System', 'nanoTime') as id"),
}


@pytest.mark.parametrize("how", CLOCKED)
def test_what_the_plan_of_the_result_does_not_show_is_refused_where_it_is_asked(rows, how):
    clocked = CLOCKED[how]

    def step(rows: DataFrame) -> DataFrame:
        return clocked(rows)

    with pytest.raises(NotDeterministic):
        called(rows, step)
    if how in {"expr", "checkpointed", "reflect"}:
        assert called(rows, step, nondeterministic="the test wants it").columns


def test_ordinary_texts_and_checkpoints_pass(rows):
    def step(rows: DataFrame) -> DataFrame:
        rows = rows.where("d = date'2026-04-25' and 'now' <> 'today'").withColumn("m", expr("n + 1")).localCheckpoint()
        return rows.selectExpr("*", "timestamp'2026-04-25 00:00:00' as at").rdd.toDF()

    assert [(row.n, row.m) for row in called(rows, step).collect()] == [(1, 2)]
