"""S02-S11: a scope is replaced as a whole, and nothing but the scope."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from twice import Day, Hour, Overwrite, Pipeline, QuarterHour, Table
from twice.errors import DefinitionError, OutOfScope, ScopeHeld, StepFailed, UsageError

pytestmark = pytest.mark.spark

ORDERS = "id bigint, d date, amount decimal(10,2)"
THREE_DAYS = "select id, date'2026-04-24' + cast(id % 3 as int), cast(id * 1.5 as decimal(10,2)) from range(30)"
TENANTS = ["acme", 'O\'Brien & "Söhne"', "a b", "..", "back\\slash", "100%", "a=b/c", "東京"]


def copying(lab, raw, **contract):
    """Make a pipeline whose one step copies the source's window."""
    pipeline = Pipeline("copying", grain=Day)
    target = Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite(), **contract)

    @pipeline.step(reads={"raw": raw}, writes=target)
    def facts(raw):
        return raw

    return pipeline


def test_s02_the_digest_does_not_depend_on_how_rows_are_spread(lab):
    raw = lab.source("raw", ORDERS, THREE_DAYS)
    pipeline, spread = Pipeline("spread", grain=Day), SimpleNamespace(parts=1)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("fct"), partition=Day("d"), write=Overwrite()))
    def facts(raw):
        return raw.orderBy(F.desc("id") if spread.parts > 1 else F.asc("id")).repartition(spread.parts)

    lab.run(pipeline, "2026-04-25")
    versions, spread.parts = lab.versions("fct"), 3

    assert lab.run(pipeline, "2026-04-25").steps[0].status == "unchanged"
    assert lab.versions("fct") == versions


def test_s03_three_tries_leave_the_rows_of_one(lab, monkeypatch):
    # Small batches, so that the failed tries have really staged rows.
    monkeypatch.setattr("twice.engine.attempt.compute.BATCH", 50)
    pipeline, tries = Pipeline("payments", grain=Day), SimpleNamespace(made=0)
    target = Table(lab.name("raw"), partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, d DATE")

    @pipeline.extract(writes=target)
    def fetch(window):
        tries.made += 1
        for number in range(120):
            if (tries.made, number) in {(1, 60), (2, 119)}:
                raise ConnectionResetError("the source hung up")
            yield {"id": number, "d": window.start.date()}

    step = lab.run(pipeline, "2026-04-25").steps[0]

    assert (step.status, step.rows, step.attempts) == ("published", 120, 3)
    assert lab.read("raw").count() == 120
    assert lab.refs("raw") == ["main"]
    assert len(lab.versions("raw")) == 1


def test_s03_tries_in_three_runs_leave_the_rows_of_one(lab):
    raw = lab.source("raw", ORDERS)
    pipeline, mood = Pipeline("moody", grain=Day), SimpleNamespace(bad=True)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite()))
    def facts(raw):
        if mood.bad:
            raise ValueError(f"gave up after {raw.count()} rows")
        return raw

    for first, rows in ((0, 100), (100, 200)):
        lab.insert("raw", f"select id, date'2026-04-25', 1 from range({first}, {first + rows})")
        with pytest.raises(StepFailed, match=f"gave up after {first + rows} rows"):
            lab.run(pipeline, "2026-04-25")
    mood.bad = False
    lab.run(pipeline, "2026-04-25")

    assert lab.read("fct").count() == 300
    assert [run.status for run in lab.ledger.runs.list()] == ["done", "failed", "failed"]


def test_s04_neighbours_keep_their_very_files(lab):
    pipeline = copying(lab, lab.source("raw", ORDERS, THREE_DAYS))
    lab.run(pipeline, from_="2026-04-24", to="2026-04-27")
    around = lab.files("fct", "partition.d <> date'2026-04-25'")
    inside = lab.files("fct", "partition.d = date'2026-04-25'")

    lab.sql("update {space}.raw set amount = amount + 1 where d = date'2026-04-25'")
    assert lab.run(pipeline, "2026-04-25").steps[0].status == "published"

    assert lab.files("fct", "partition.d <> date'2026-04-25'") == around
    assert not lab.files("fct", "partition.d = date'2026-04-25'") & inside
    assert lab.rows("fct") == lab.rows("raw")


def test_s04_a_run_over_three_days_rewrites_only_the_day_that_changed(lab):
    pipeline = copying(lab, lab.source("raw", ORDERS, THREE_DAYS))
    lab.run(pipeline, from_="2026-04-24", to="2026-04-27")
    around = lab.files("fct", "partition.d <> date'2026-04-25'")

    lab.sql("update {space}.raw set amount = amount + 1 where d = date'2026-04-25'")
    step = lab.run(pipeline, from_="2026-04-24", to="2026-04-27").steps[0]

    assert (step.status, step.details["published_partitions"]) == ("published", 1)
    assert lab.files("fct", "partition.d <> date'2026-04-25'") == around
    assert lab.rows("fct") == lab.rows("raw")


def test_s05_an_hourly_run_into_a_daily_table_is_refused_when_it_is_defined(lab):
    pipeline = Pipeline("hourly", grain=Hour)
    daily = Table(lab.name("daily"), partition=Day("d"), write=Overwrite())

    with pytest.raises(DefinitionError) as refused:
        pipeline.sql("sums", reads={}, writes=daily, query="select 1")

    assert "runs by hour" in str(refused.value)
    assert "partitioned by day" in str(refused.value)
    assert pipeline.steps == {}


def test_s05_a_daily_run_over_a_15_minute_table_replaces_96_whole_partitions(lab):
    quarter = "timestamp'2026-04-24 23:45:00' + make_interval(0, 0, 0, 0, 0, cast(id * 15 as int)) as t"
    for name, number in (("ticks", 1), ("quarters", 0)):
        lab.spark.sql(
            f"create table {lab.name(name)} using iceberg partitioned by (t) as "
            f"select /*+ repartition(1) */ id, {quarter}, {number} as n from range(98)"
        )
    before = lab.files("quarters")
    pipeline = Pipeline("quarters", grain=Day)
    target = Table(lab.name("quarters"), partition=QuarterHour("t"), key=["id"], write=Overwrite())
    raw = Table(lab.name("ticks"), partition=QuarterHour("t"))
    pipeline.sql("quarters", reads={"raw": raw}, writes=target, query="select * from raw")

    step = lab.run(pipeline, "2026-04-25").steps[0]

    assert (step.rows, step.details["published_partitions"]) == (96, 96)
    assert len(lab.outputs("quarters")) == 96
    assert len(before & lab.files("quarters")) == 2  # a quarter of an hour before and one after the day
    counted = lab.read("quarters").groupBy("n").agg(F.count("*"), F.min("t").cast("string")).orderBy("n").collect()
    assert [tuple(row) for row in counted] == [(0, 2, "2026-04-24 23:45:00"), (1, 96, "2026-04-25 00:00:00")]


def test_s06_a_day_that_never_existed_makes_no_version(lab):
    pipeline = copying(lab, lab.source("raw", ORDERS, THREE_DAYS))

    # Neither on a table that the run itself creates, nor on one with other days.
    assert lab.run(pipeline, "2026-05-01").steps[0].status == "unchanged"
    assert lab.versions("fct") == []
    lab.run(pipeline, "2026-04-25")
    versions = lab.versions("fct")
    assert lab.run(pipeline, "2026-05-02").steps[0].status == "unchanged"
    assert lab.versions("fct") == versions
    assert lab.refs("fct") == ["main"]


def tenants_pipeline(lab, raw):
    pipeline = Pipeline("tenants", grain=Day)
    target = Table(lab.name("fct"), partition=Day("d"), dimensions=["tenant"], key=["tenant", "id"], write=Overwrite())

    @pipeline.step(reads={"raw": raw}, writes=target)
    def facts(raw):
        return raw

    return pipeline


def test_s10_one_tenant_excludes_itself_and_a_run_of_all_but_not_another_tenant(lab):
    raw = lab.source(
        "raw",
        "id bigint, d date, tenant string",
        "values (1, date'2026-04-25', 'acme'), (2, date'2026-04-25', 'bolt')",
        dimensions=["tenant"],
    )
    pipeline, inner = Pipeline("tenants", grain=Day), SimpleNamespace(results={}, busy=False)
    target = Table(lab.name("fct"), partition=Day("d"), dimensions=["tenant"], write=Overwrite())

    @pipeline.step(reads={"raw": raw}, writes=target)
    def facts(raw):
        if not inner.busy:  # acme's run is in the middle: others try
            inner.busy = True
            for name, which in {"all": None, "same": {"tenant": "acme"}, "other": {"tenant": "bolt"}}.items():
                try:
                    other = meanwhile(lambda which=which: lab.run(pipeline, "2026-04-25", dimensions=which))
                    inner.results[name] = other.status
                except ScopeHeld as held:
                    inner.results[name] = held.exit_code
        return raw

    lab.run(pipeline, "2026-04-25", dimensions={"tenant": "acme"})

    assert inner.results == {"all": 4, "same": 4, "other": "done"}
    assert lab.rows("fct") == lab.rows("raw")
    assert lab.refs("fct") == ["main"]
    with pytest.raises(UsageError, match=r"no dimension 'region'; its dimensions are: tenant"):
        lab.run(pipeline, "2026-04-25", dimensions={"region": "north"})


@pytest.mark.parametrize(
    ("stray", "named"),
    [("date'2026-04-26'", "d=2026-04-26"), ("cast(null as date)", "d=None")],
)
def test_s11_a_row_outside_the_scope_is_refused_with_a_sample(lab, stray, named):
    raw = lab.source("raw", ORDERS, THREE_DAYS)
    pipeline, mood = Pipeline("strays", grain=Day), SimpleNamespace(bad=False)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite()))
    def facts(raw):
        if not mood.bad:
            return raw
        return raw.withColumn("d", F.expr(f"case when id = 4 then {stray} else d end"))

    lab.run(pipeline, from_="2026-04-25", to="2026-04-27")
    mood.bad = True
    with lab.untouched("fct"), pytest.raises(OutOfScope) as refused:
        lab.run(pipeline, "2026-04-25")

    said = str(refused.value)
    assert "returned 1 row outside its scope 2026-04-25" in said
    assert named in said
    assert "id=4" in said
    assert "amount=6.00" in said
    assert "the last good version stays readable" in said
    assert refused.value.exit_code == 3
