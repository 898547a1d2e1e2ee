"""Bad input gets a clear sentence, and tables and ledger are as before."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

from twice import Day, Hour, InsertOnly, Merge, Overwrite, Pipeline, Table, Week, Window, gates
from twice.engine.operations.maintain import maintain
from twice.engine.operations.undo import undo
from twice.errors import (
    DefinitionError,
    GateFailed,
    KeyViolation,
    OutOfScope,
    SchemaRefused,
    StepFailed,
    StoreRefused,
    UsageError,
)
from twice.model.names import quote

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
GOOD = "select id, d, n from raw"


@pytest.fixture
def raw(lab):
    return lab.source("raw", "id bigint, d date, n int", f"select id, date'{DAY}', cast(id as int) from range(3)")


def pipeline_of(lab, raw, make, **contract):
    """Make a pipeline with one step: a query, or a function of the input."""
    pipeline = Pipeline("bad", grain=Day)
    contract = {"partition": Day("d"), "key": ["id"], "write": Overwrite()} | contract
    target = Table(lab.name("out"), **contract)
    if isinstance(make, str):
        pipeline.sql("out", reads={"raw": raw}, writes=target, query=make)
    else:

        @pipeline.step(reads={"raw": raw}, writes=target)
        def out(raw):
            return make(raw)

    return pipeline


RESULTS = {
    "None": (lambda raw: None, StepFailed, "step out returned NoneType; it must return a DataFrame"),
    "a list": (lambda raw: raw.collect(), StepFailed, "step out returned list; it must return a DataFrame"),
    "a row count": (lambda raw: raw.count(), StepFailed, "step out returned int"),
    "no partition column": ("select id, n from raw", SchemaRefused, "returns no column d, which is a partition column"),
    "no key column": ("select d, n from raw", SchemaRefused, "returns no column id, which is a key column"),
    "the key in another case": ("select id as ID, d, n from raw", SchemaRefused, "returns no column id"),
    "one name twice": (
        lambda raw: raw.select("*", F.lit(1).alias("n")),
        SchemaRefused,
        "step out returns two columns named n: rename or drop one",
    ),
    "one name in two cases": ("select *, 1 as N from raw", SchemaRefused, "two columns named n, N"),
    "a column without type": ("select *, null as x from raw", SchemaRefused, "column x is null in every row"),
    "a name of the framework": ("select *, 'x' as _twice_window from raw", SchemaRefused, "which belongs to twice"),
    "a partition that is text": (
        "select id, cast(d as string) as d, n from raw",
        SchemaRefused,
        "partition column d is string, but a partition by day is a date",
    ),
    "a timestamp for a day": (
        "select id, cast(d as timestamp) as d, n from raw",
        SchemaRefused,
        "partition column d is timestamp",
    ),
    "SQL that is none": ("select frm raw", StepFailed, "step out raised"),
    "an unknown view": ("select * from elsewhere", StepFailed, "elsewhere"),
}  # fmt: skip


@pytest.mark.full
def test_results_that_are_none(lab, raw):
    lab.run(pipeline_of(lab, raw, GOOD), DAY)

    for name, (make, kind, text) in RESULTS.items():
        with lab.untouched("out"), pytest.raises(kind) as refused:
            lab.run(pipeline_of(lab, raw, make), DAY)
        assert text in str(refused.value), name
        assert refused.value.exit_code == 3
        run = lab.ledger.runs.list()[0]
        assert (run.status, len(run.attempts), run.attempts[0].status) == ("failed", 1, "failed"), name


def test_a_first_run_with_a_bad_result_makes_no_table(lab, raw):
    for name, (make, kind, _) in RESULTS.items():
        with lab.untouched("out"), pytest.raises(kind):
            lab.run(pipeline_of(lab, raw, make), DAY)
        assert lab.picture("out") is None, name


def test_a_result_that_is_not_the_declared_schema(lab, raw):
    schema = "id BIGINT, d DATE, n INT"
    lab.run(pipeline_of(lab, raw, GOOD, schema=schema), DAY)

    for query, text in {
        "select id, d from raw": "n is missing",
        "select *, 1 as more from raw": "more is not declared",
        "select id, d, cast(n as bigint) as n from raw": "n is bigint, declared int",
    }.items():
        with lab.untouched("out"), pytest.raises(SchemaRefused) as refused:
            lab.run(pipeline_of(lab, raw, query, schema=schema), DAY)
        assert text in str(refused.value)
    with lab.untouched("out"), pytest.raises(SchemaRefused, match="the declared schema cannot be read"):
        lab.run(pipeline_of(lab, raw, GOOD, schema="id BIGINT, , d"), DAY)


def test_extracts_that_yield_something_else(lab):
    def extract(rows, **contract):
        pipeline = Pipeline("bad", grain=Day)
        target = Table(lab.name("out"), partition=Day("d"), write=Overwrite(), **contract)

        @pipeline.extract(writes=target)
        def out(window):
            return rows

        return pipeline

    day = datetime(2026, 4, 25).date()
    for rows, contract, text in [
        ([{"d": day}], {}, "declares no schema"),
        ([{"d": day, "x": 1}], {"schema": "d DATE"}, "yielded the column x, which"),
        ([(day,)], {"schema": "d DATE"}, "yielded tuple; it must yield mappings"),
        ("text", {"schema": "d DATE"}, "returned str; it must return a DataFrame or an iterable of mappings"),
        ({"d": day}, {"schema": "d DATE"}, "returned dict"),
        (None, {"schema": "d DATE"}, "returned NoneType"),
        ([{"d": "yesterday"}], {"schema": "d DATE"}, "step out raised"),
    ]:
        with lab.untouched("out"), pytest.raises(StepFailed) as refused:
            lab.run(extract(rows, **contract), DAY)
        assert text in str(refused.value)
        assert lab.picture("out") is None


def test_windows_off_the_grain_unknown_steps_and_dimensions_start_no_run(lab, raw):
    pipeline = pipeline_of(lab, raw, GOOD)
    morning = datetime(2026, 4, 25, 8, tzinfo=timezone.utc)
    weekly = Pipeline("weekly", grain=Week)
    weekly.sql(
        "out", reads={"raw": raw}, writes=Table(lab.name("w"), partition=Day("d"), write=Overwrite()), query=GOOD
    )

    for call, text in {
        lambda: lab.run(pipeline, "2026-04-25T08:00"): "is not the start of a day",
        lambda: lab.run(pipeline, "25.04.2026"): "is not a day: write it like 2026-04-25",
        lambda: lab.run(pipeline, "2026-02-30"): "is not a day",
        lambda: lab.run(pipeline, Window(morning, morning + timedelta(days=1))): "is not a boundary of the grain day",
        lambda: lab.run(weekly, "2026-04-25"): "is not the start of a week",
        lambda: lab.run(pipeline, from_="2026-04-26", to="2026-04-25"): "a window must end after it starts",
        lambda: lab.run(pipeline, from_=DAY, to=DAY): "a window must end after it starts",
        lambda: lab.run(pipeline): "there is no default",
        lambda: lab.run(pipeline, DAY, steps=["fct"]): "has no step 'fct'; its steps are: out",
        lambda: lab.run(
            pipeline, DAY, dimensions={"tenant": "a"}
        ): "has no dimension 'tenant'; its dimensions are: none",
        lambda: lab.run(Pipeline("none", grain=Day), DAY): "has no steps",
    }.items():
        with pytest.raises(UsageError) as refused:
            call()
        assert text in str(refused.value)
        assert refused.value.exit_code == 2

    assert lab.ledger.runs.list() == []
    assert lab.picture("out") is None


def test_definitions_that_cannot_keep_the_promise(lab):
    pipeline = Pipeline("defined", grain=Day)
    one, two = (Table(lab.name(name), partition=Day("d"), write=Overwrite()) for name in ("one", "two"))
    pipeline.sql("one", reads={"two": two}, writes=one, query="select 1")

    for define, text in {
        lambda: pipeline.sql("two", reads={"one": one}, writes=two, query="select 1"): "has a cycle: ",
        lambda: pipeline.sql("again", reads={}, writes=one, query="select 1"): "is already written by the step one",
        lambda: pipeline.sql("one", reads={}, writes=two, query="select 1"): "already has a step one",
        lambda: pipeline.sql("x", reads={}, writes=Table(lab.name("t")), query="select 1"): "has no write pattern",
        lambda: pipeline.sql("x", reads={}, writes=two, query="  "): "the query is empty",
        lambda: pipeline.step(reads={"a": one}, writes=two)(lambda b: b): "takes no argument a",
        lambda: pipeline.sql("x", reads={"a b": one}, writes=two, query="select 1"): "use a Python identifier",
        lambda: Table(lab.name("t"), write=Overwrite()): "needs a partition",
        lambda: Table(lab.name("t"), write=InsertOnly()): "needs the business key",
        lambda: Table(lab.name("t"), dimensions="id"): 'must be a list: ["id"]',
        lambda: Table("fct_orders"): "is not a full table name",
        lambda: Table("lake.core...x"): "is not a table name",
        lambda: Table("lake.`..`.x"): "it is a path",
        lambda: Table(lab.name("t"), partition=Day("d"), personal=["d"]): "is personal and cannot be the partition",
        lambda: Pipeline("a b", grain=Hour): "use letters, digits",
        lambda: Pipeline("a", grain=Day, time_zone="Mars/Olympus"): "unknown time zone",
    }.items():
        with pytest.raises(DefinitionError) as refused:
            define()
        assert text in str(refused.value)
    assert list(pipeline.steps) == ["one"]


@pytest.mark.parametrize("live", ["", "partitioned by (n)", "partitioned by (bucket(4, id))", "partitioned by (d, n)"])
def test_a_table_that_is_partitioned_otherwise_than_its_contract(lab, raw, live):
    lab.spark.sql(f"create table {lab.name('out')} (id bigint, d date, n int) using iceberg {live}")
    lab.insert("out", f"values (9, date'{DAY}', 9)")

    with lab.untouched("out"), pytest.raises(StoreRefused) as refused:
        lab.run(pipeline_of(lab, raw, GOOD), DAY)

    assert "its Table(…) declares identity(d)" in str(refused.value)
    assert "ALTER TABLE" in refused.value.next_step


def test_an_input_that_does_not_exist(lab, raw):
    missing = Table(lab.name("missing"), partition=Day("d"))
    with lab.untouched("out"), pytest.raises(StoreRefused) as refused:
        lab.run(pipeline_of(lab, missing, GOOD), DAY)
    assert f"its input raw ({lab.name('missing')}) does not exist" in str(refused.value)
    assert "create " in refused.value.next_step
    assert lab.picture("out") is None

    # One that another step of the pipeline makes: the sentence names the step.
    pipeline = Pipeline("chained", grain=Day)
    middle = Table(lab.name("middle"), partition=Day("d"), write=Overwrite())
    last = Table(lab.name("last"), partition=Day("d"), write=Overwrite())
    pipeline.sql("middle", reads={"raw": raw}, writes=middle, query=GOOD)
    pipeline.sql("last", reads={"middle": middle}, writes=last, query="select * from middle")
    with pytest.raises(StoreRefused, match="--step middle"):
        lab.run(pipeline, DAY, steps=["last"])


@pytest.mark.full
def test_difficult_names_go_through_a_whole_life(lab):
    """Quotes, dots, spaces and unicode in tables, columns and values: run, refuse, merge, maintain, undo."""
    key, day, version, tenant, amount = "kunden.nr", "buchungs tag", "geändert `am`", "mandant's", 'be"trag €'
    value = 'O\'Brien`s "Söhne" .. \\ 100%'
    source, fct, dim = (lab.name(quote(name)) for name in ("roh daten", "fct.übersicht's", 'dim "kunden"'))
    k, d, v, t, a = map(quote, (key, day, version, tenant, amount))
    lab.spark.sql(
        f"create table {source} ({k} bigint, {d} date, {v} timestamp, {t} string, {a} int) "
        f"using iceberg partitioned by ({d})"
    )

    def put(*rows):
        frame = lab.spark.createDataFrame(
            [
                (number, datetime(2026, 4, 25).date(), datetime(2026, 4, hour), who, sum_)
                for number, hour, who, sum_ in rows
            ],
            f"{k} bigint, {d} date, {v} timestamp, {t} string, {a} int",
        )
        frame.writeTo(source).overwrite(F.lit(True))

    put((1, 1, value, 10), (2, 1, "plain", 20))
    pipeline = Pipeline("odd", grain=Day)
    raw = Table(source, partition=Day(day), dimensions=[tenant])
    facts = Table(
        fct,
        partition=Day(day),
        dimensions=[tenant],
        key=[key],
        write=Overwrite(),
        gates=[
            gates.not_null(amount),
            gates.range(amount, max=1000),
            gates.unique(key, tenant),
            gates.accepted(tenant, [value, "plain"]),
        ],
    )
    people = Table(dim, dimensions=[tenant], key=[key], write=Merge(version=version))

    @pipeline.step(reads={"raw": raw}, writes=facts)
    def into_facts(raw):
        return raw

    @pipeline.step(reads={"raw": raw}, writes=people)
    def into_people(raw):
        return raw.drop(day)

    def seen(table):
        return sorted((row[key], row[tenant], row[amount]) for row in lab.spark.newSession().table(table).collect())

    first = lab.run(pipeline, DAY)
    assert [step.status for step in first.steps] == ["published", "published"]
    assert seen(fct) == seen(dim) == [(1, value, 10), (2, "plain", 20)]
    assert [step.status for step in lab.run(pipeline, DAY).steps] == ["unchanged", "unchanged"]

    # A newer version for the difficult tenant only.
    put((1, 2, value, 11), (2, 2, "plain", 21), (3, 2, value, 30))
    second = lab.run(pipeline, DAY, dimensions={tenant: value})
    assert [step.status for step in second.steps] == ["published", "published"]
    assert seen(fct) == seen(dim) == [(1, value, 11), (2, "plain", 20), (3, value, 30)]
    assert lab.run(pipeline, DAY, dimensions={tenant: value}, skip_fresh=True).steps[0].status == "fresh"

    # Each refusal names the difficult thing and changes nothing.
    for rows, kind, named in [
        ([(1, 3, value, 5000)], GateFailed, f"{amount}=5000"),
        ([(1, 3, value, 1), (1, 3, value, 2)], KeyViolation, f"{key}=1"),
        ([(None, 3, value, 1)], KeyViolation, f"{key}=null"),
        ([(1, 3, None, 1)], OutOfScope, f"{tenant}=None"),
    ]:
        put(*rows)
        before = seen(fct), seen(dim)
        with pytest.raises(kind) as refused:
            lab.run(pipeline, DAY, steps=["into_facts"])
        assert named in str(refused.value)
        assert (seen(fct), seen(dim)) == before

    shop = lab.runtime
    for done in maintain(shop, [pipeline], keep=timedelta(days=1)):
        assert done.remarks == []
    assert seen(fct) == seen(dim) == [(1, value, 11), (2, "plain", 20), (3, value, 30)]
    put((1, 4, value, 12))
    third = lab.run(pipeline, DAY, dimensions={tenant: value})
    assert seen(fct) == [(1, value, 12), (2, "plain", 20)]
    undo(shop, {"odd": pipeline}, third.run)
    assert seen(fct) == seen(dim) == [(1, value, 11), (2, "plain", 20), (3, value, 30)]
    assert lab.ledger.leases.list() == []
    refs = (
        lab.spark.sql(f"select name from {fct}.refs").collect()
        + lab.spark.sql(f"select name from {dim}.refs").collect()
    )
    assert {row[0] for row in refs} == {"main"}
