"""S58 in other stores: what keeps no versions is compared by digest, or cannot be rebuilt for a reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from tests.replay.test_replay import COLUMNS, MON, ROWS, TUE, copying, only, replayed, verdicts
from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Table
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.engine.spark.environment import environment
from twice.model.windows import Window

pytestmark = pytest.mark.spark

OTHERS = [pytest.param(kind, marks=pytest.mark.full) for kind in ("postgres", "parquet", "delta")]


def pipeline_into(tables, raw, factor, **contract):
    pipeline = Pipeline("into", grain=Day)

    @pipeline.step(reads={"raw": raw}, writes=tables.table(key=["id"], **contract))
    def copied(raw):
        return raw.withColumn("n", F.col("n") * factor.now)

    return pipeline


@pytest.mark.parametrize("tables", ["sqlite", *OTHERS], indirect=True)
def test_s58_a_day_is_rebuilt_whatever_store_holds_it(tables, lab):
    factor = SimpleNamespace(now=1)
    pipeline = pipeline_into(tables, lab.source("raw", COLUMNS, ROWS), factor, partition=Day("d"), write=Overwrite())
    run = lab.run(pipeline, MON).run
    factor.now = 3
    with tables.untouched():
        found = only(replayed(lab, pipeline, run))
    # The table still holds what the run published, so the rows are shown.
    assert (found.status, found.partitions[MON].changed, len(found.samples)) == ("differs", 2, 4)
    lab.run(pipeline, MON)
    with tables.untouched():
        found = only(replayed(lab, pipeline, run))
        assert found.status == "differs"
        assert bool(found.samples) == tables.abilities.history
        factor.now = 1
        assert only(replayed(lab, pipeline, run)).status == "same"


@pytest.mark.full
@pytest.mark.parametrize("tables", ["sqlite", "postgres", "delta"], indirect=True)
@pytest.mark.parametrize("write", [Merge(version="u"), InsertOnly(on_conflict="keep")], ids=["merge", "insert only"])
def test_s58_a_merge_needs_the_version_that_it_was_merged_into(tables, lab, write):
    pipeline = pipeline_into(tables, lab.source("raw", COLUMNS, ROWS), SimpleNamespace(now=1), write=write)
    monday, tuesday = lab.run(pipeline, MON).run, lab.run(pipeline, TUE).run
    with tables.untouched():
        both = [only(replayed(lab, pipeline, run)) for run in (monday, tuesday)]
    for found in both:
        if tables.abilities.history:
            assert found.status == "same"
        else:  # even before the first merge a table of others may have held rows
            assert found.status == "cannot"
            assert found.why.endswith("which is not kept: a sql store has no earlier versions")


@pytest.mark.full
@pytest.mark.parametrize("tables", ["sqlite", "postgres", "parquet", "delta"], indirect=True)
def test_s58_an_input_without_versions_is_read_while_it_holds_the_same(tables, lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    pipeline = Pipeline("two", grain=Day)
    middle = tables.table(partition=Day("d"), key=["id"], write=Overwrite())
    end = Table(lab.name("end"), partition=Day("d"), key=["id"], write=Overwrite())
    newest = Table(lab.name("newest"), partition=Day("d"), key=["id"], write=Overwrite())
    pipeline.sql("middle", reads={"raw": raw}, writes=middle, query="select * from raw")
    pipeline.sql("end", reads={"middle": middle}, writes=end, query="select * from middle")
    day = "where d = to_date(:window_start)"
    pipeline.sql("newest", reads={"middle": middle.latest()}, writes=newest, query=f"select * from middle {day}")
    run = lab.run(pipeline, MON).run
    assert set(verdicts(replayed(lab, pipeline, run)).values()) == {"same"}
    lab.run(pipeline, TUE)
    found = {step.step: step for step in replayed(lab, pipeline, run).steps}
    assert found["end"].status == "same"  # its own day has not moved
    assert found["newest"].status == ("same" if tables.abilities.history else "cannot")
    lab.sql("update {space}.raw set n = n + 1")
    lab.run(pipeline, MON)
    found = {step.step: step for step in replayed(lab, pipeline, run).steps}
    assert found["middle"].status == "same"
    assert found["end"].status == ("same" if tables.abilities.history else "cannot")
    if not tables.abilities.history:
        assert "has no versions, and what the run has read of it has changed since" in found["end"].why


@pytest.mark.full
def test_s58_a_catalog_cannot_tell_what_was_read(lab):
    lab.declare('[stores.hive]\ntype = "catalog"')
    lab.spark.sql("create table if not exists default.s58_raw (id bigint, n int, d date) using parquet")
    try:
        lab.spark.sql("insert overwrite default.s58_raw values (1, 1, date'2026-04-20')")
        for contract in ({"partition": Day("d")}, {}):
            raw = Table("hive.default.s58_raw", **contract)
            pipeline = copying(lab, raw if contract else raw.latest())
            found = only(replayed(lab, pipeline, lab.run(pipeline, MON).run))
            assert found.status == "cannot"
            assert found.why == (
                "its input raw (hive.default.s58_raw) has no versions: a catalog source does not show whether its rows "
                "are those that the run read"
            )
    finally:
        lab.spark.sql("drop table default.s58_raw")


@pytest.mark.full
def test_s58_a_chunk_of_a_backfill_is_rebuilt_as_a_whole(lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    pipeline = copying(lab, raw)
    days = Window(pipeline.grain.parse(MON, pipeline.zone), pipeline.grain.parse("2026-04-23", pipeline.zone))
    Project(lab.runtime, pipeline).start(Request("copy", days))
    (run,) = [each.id for each in lab.ledger.runs.list() if each.status == "done"]
    assert len(lab.outputs("copied")) == 3
    assert lab.ledger.runs.get(run).environment == environment(lab.runtime, pipeline)
    lab.sql("update {space}.raw set n = n + 1")
    found = only(replayed(lab, pipeline, run))
    assert (found.status, found.rebuilt_rows) == ("same", 4)


@pytest.mark.full
def test_s58_sums_of_floats_may_differ_in_their_last_digits(lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    pipeline = Pipeline("floats", grain=Day)
    noise = SimpleNamespace(now=0.0)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("sums"), partition=Day("d"), write=Overwrite()))
    def sums(raw):
        return raw.groupBy("d").agg((F.sum("n") / 3 + noise.now).alias("share"))

    run = lab.run(pipeline, MON).run
    noise.now = 1e-15
    found = only(replayed(lab, pipeline, run))
    assert found.status == "same"
    assert "share: equal except for the last digits" in found.remarks[0]
    noise.now = 0.1
    found = only(replayed(lab, pipeline, run))
    assert (found.status, found.partitions[MON].added, found.partitions[MON].removed) == ("differs", 1, 1)
    assert [line[0] for line in found.samples] in (["-", "+"], ["+", "-"])
