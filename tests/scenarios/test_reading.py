"""S19-S22, S47, S48: a result is a function of its pinned inputs and its window, and of nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from twice import Day, Overwrite, Pipeline, Table, as_of_join, days
from twice.errors import DefinitionError, NotDeterministic, SchemaRefused, StoreRefused, UsageError
from twice.model.contracts import contracts

pytestmark = pytest.mark.spark

RAW = "id bigint, d date, n int"
ROWS = "select id, date'2026-04-25', cast(id as int) from range(4)"

CLOCKED = {
    "current_date": lambda raw: raw.withColumn("x", F.current_date()),
    "current_timestamp": lambda raw: raw.withColumn("x", F.current_timestamp()),
    "now": lambda raw: raw.selectExpr("*", "now() as x"),
    "localtimestamp": lambda raw: raw.withColumn("x", F.localtimestamp()),
    "unix_timestamp": lambda raw: raw.withColumn("x", F.unix_timestamp()),
    "rand": lambda raw: raw.withColumn("x", F.rand()),
    "rand with a seed": lambda raw: raw.withColumn("x", F.rand(7)),
    "randn": lambda raw: raw.withColumn("x", F.randn()),
    "uuid": lambda raw: raw.selectExpr("*", "uuid() as x"),
    "shuffle": lambda raw: raw.selectExpr("*", "shuffle(array(1, 2, 3)) as x"),
    "monotonically_increasing_id": lambda raw: raw.withColumn("x", F.monotonically_increasing_id()),
    "spark_partition_id": lambda raw: raw.withColumn("x", F.spark_partition_id()),
    "a sample": lambda raw: raw.sample(0.5),
    "in a filter": lambda raw: raw.where(F.col("d") < F.current_date()),
    "deep inside": lambda raw: raw.withColumn("x", F.when(F.datediff(F.current_date(), "d") > 3, "old")),
    "in an aggregate": lambda raw: raw.groupBy("d").agg(F.max(F.datediff(F.current_date(), "d")).alias("x")),
    "in a window function": lambda raw: raw.withColumn("x", F.row_number().over(Over.orderBy("d", F.rand()))),
    "in a join": lambda raw: raw.join(raw.select("id", F.uuid().alias("x")), "id"),
    "today, as a word": lambda raw: raw.withColumn("x", F.lit("today").cast("date")),
    "today, by a function": lambda raw: raw.withColumn("x", F.to_date(F.lit("today"))),
    "now, by a function": lambda raw: raw.withColumn("x", F.to_timestamp(F.lit("now"))),
    "today, put together": lambda raw: raw.withColumn("x", F.concat(F.lit("to"), F.lit("day")).cast("date")),
    "today, with a zone": lambda raw: raw.withColumn("x", F.lit("today+01:00").cast("timestamp")),
}  # fmt: skip

CLOCKED_SQL = {
    "plain": "select *, current_date() as x from raw",
    "without brackets": "select *, current_timestamp as x from raw",
    "in a subquery": "select * from raw where d = (select max(current_date()) from raw)",
    "in an in": "select * from raw where d in (select current_date() from raw)",
    "in an exists": "select * from raw r where exists (select 1 from raw s where s.id = r.id and s.d < now())",
    "in a common table": "with t as (select *, uuid() as x from raw) select * from t",
    "in a lateral": "select r.*, l.x from raw r, lateral (select now() as x) l",
    "in a having": "select d, count(*) as n from raw group by d having max(d) < current_date()",
    "in an order": "select *, row_number() over (order by rand()) as x from raw",
    "as a word": "select *, timestamp'now' as x from raw",
    "as a date word": "select *, DATE 'yesterday' as x from raw",
    "as a date word with a zone": "select *, date'today+01:00' as x from raw",
}


def reading(lab, raw, make=None, query=None, **how):
    pipeline = Pipeline("reading", grain=Day)
    target = Table(lab.name("out"), partition=Day("d"), write=Overwrite())
    if query:
        pipeline.sql("told", reads={"raw": raw}, writes=target, query=query, **how)
    else:

        @pipeline.step(reads={"raw": raw}, writes=target, **how)
        def told(raw):
            return make(raw)

    return pipeline


def refuses(lab, pipeline) -> str:
    with lab.untouched("out"), pytest.raises(NotDeterministic) as refused:
        lab.run(pipeline, "2026-04-25")
    assert "step told: " in refused.value.message
    assert "nothing was staged" in refused.value.unchanged
    assert refused.value.exit_code == 3
    return refused.value.message


def test_s19_what_a_plan_must_not_ask(lab):
    raw = lab.source("raw", RAW, ROWS)

    said = {name: refuses(lab, reading(lab, raw, make)) for name, make in CLOCKED.items()}

    assert "current_date() reads the clock" in said["current_date"]
    assert "now() reads the clock" in said["now"]
    assert "is random" in said["uuid"]
    assert "depends on how rows are spread over tasks" in said["monotonically_increasing_id"]


def test_s19_what_a_query_must_not_ask(lab):
    raw = lab.source("raw", RAW, ROWS)

    for query in CLOCKED_SQL.values():
        refuses(lab, reading(lab, raw, query=query))


def test_s19_subqueries_without_a_clock_are_welcome(lab):
    raw = lab.source("raw", RAW, ROWS)
    query = (
        "with t as (select * from raw where n in (select n from raw where n > 0)) select *, 'now' as word from t "
        "where exists (select 1 from raw r where r.id = t.id) and d = (select max(d) from raw) "
        "and d >= date(:window_start) and d < date(:window_end)"
    )

    assert lab.run(reading(lab, raw, query=query), "2026-04-25").steps[0].rows == 3


def test_s19_a_written_reason_lets_it_pass_and_shows_in_the_contract(lab):
    raw = lab.source("raw", RAW, ROWS)
    reason = "the audit wants the hour of the load"
    pipeline = reading(lab, raw, CLOCKED["now"], nondeterministic=reason)

    assert lab.run(pipeline, "2026-04-25").steps[0].rows == 4
    assert reason in contracts([pipeline])


def test_s19_the_window_is_the_clock(lab):
    raw = lab.source("raw", RAW, ROWS)
    pipeline = Pipeline("window", grain=Day, time_zone="Europe/Berlin")
    python, sql = (Table(lab.name(name), partition=Day("d"), write=Overwrite()) for name in ("python", "sql"))

    @pipeline.step(reads={"raw": raw}, writes=python)
    def in_python(raw, window):
        return raw.withColumn("since", F.lit(window.start)).withColumn("until", F.lit(window.end))

    pipeline.sql(
        "in_sql",
        reads={"raw": raw},
        writes=sql,
        query="select *, :window_start as since, :window_end as until from raw",
    )
    lab.run(pipeline, "2026-04-25")
    versions = lab.versions("python"), lab.versions("sql")

    assert [step.status for step in lab.run(pipeline, "2026-04-25").steps] == ["unchanged", "unchanged"]
    assert (lab.versions("python"), lab.versions("sql")) == versions
    assert lab.rows("python") == lab.rows("sql")
    seen = lab.read("sql").selectExpr("cast(since as string)", "cast(until as string)").distinct().collect()
    assert [tuple(row) for row in seen] == [("2026-04-24 22:00:00", "2026-04-25 22:00:00")]


def test_s20_what_happened_at_2359_and_arrived_at_0003_lands_in_its_own_day(lab):
    raw = lab.source(
        "landed",
        "id bigint, happened timestamp, ingested date",
        "values (1, timestamp'2026-04-25 12:00:00', date'2026-04-25'),"
        " (2, timestamp'2026-04-25 23:59:00', date'2026-04-26'),"
        " (3, timestamp'2026-04-26 00:00:00', date'2026-04-26'), (4, timestamp'2026-04-25 08:00:00', date'2026-04-29'),"
        " (5, timestamp'2026-04-24 23:59:59', date'2026-04-25')",
        by="ingested",
        event_time="happened",
    )
    pipeline = Pipeline("events", grain=Day)
    target = Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite(), lateness=days(1))
    pipeline.sql(
        "fct", reads={"landed": raw}, writes=target, query="select id, happened, date(happened) as d from landed"
    )

    for day in ("2026-04-26", "2026-04-25", "2026-04-24"):
        lab.run(pipeline, day)

    found = {row["id"]: str(row["d"]) for row in lab.rows("fct")}
    # 4 came three days after its lateness; the day is only rebuilt with it by a run that may look so far.
    assert found == {1: "2026-04-25", 2: "2026-04-25", 3: "2026-04-26", 5: "2026-04-24"}
    assert "1 day" in contracts([pipeline])


def test_s20_a_late_row_changes_its_day_and_no_other(lab):
    raw = lab.source(
        "landed",
        "id bigint, happened timestamp, ingested date",
        "values (1, timestamp'2026-04-25 12:00:00', date'2026-04-25')",
        by="ingested",
        event_time="happened",
    )
    pipeline = Pipeline("events", grain=Day)
    target = Table(lab.name("fct"), partition=Day("d"), write=Overwrite(), lateness=days(2))
    pipeline.sql("fct", reads={"landed": raw}, writes=target, query="select id, date(happened) as d from landed")
    lab.run(pipeline, "2026-04-25")
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].status == "fresh"

    lab.insert("landed", "values (2, timestamp'2026-04-25 23:59:59', date'2026-04-27')")

    assert lab.run(pipeline, "2026-04-26", skip_fresh=True).steps[0].rows == 0
    assert lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0].rows == 2


def test_s22_the_current_state_of_a_dimension_is_visible_in_the_contract(lab):
    pipeline = Pipeline("joined", grain=Day)
    orders = Table(lab.name("orders"), partition=Day("d"))
    customers = Table(lab.name("customers"))
    history = Table(lab.name("history"), valid=("since", "until"))
    target = Table(lab.name("out"), partition=Day("d"), write=Overwrite())

    with pytest.raises(DefinitionError, match=r"State that with \.latest\(\)"):
        pipeline.sql("bad", reads={"c": customers}, writes=target, query="select 1")
    with pytest.raises(DefinitionError, match="needs validity columns"):
        customers.as_of("ordered_at")
    pipeline.sql(
        "out",
        reads={"orders": orders, "c": customers.latest(), "h": history.as_of("ordered_at")},
        writes=target,
        query="select 1",
    )

    text = contracts([pipeline])
    assert f"c = {lab.name('customers')} as of the run" in text
    assert f"h = {lab.name('history')} as of ordered_at" in text
    assert f"orders = {lab.name('orders')} in the window" in text


def test_s22_an_as_of_join_takes_the_version_that_was_valid_then(lab):
    orders = lab.source(
        "orders",
        "id bigint, customer int, ordered_at timestamp, d date",
        "select id, if(id = 4, 8, 7), timestamp'2026-04-25 06:00:00' + make_interval(0, 0, 0, 0, cast(id * 3 as int)),"
        " date'2026-04-25' from range(1, 5)",
        event_time="ordered_at",
    )
    lab.spark.sql(
        f"create table {lab.name('history')} (customer int, region string, since timestamp, until timestamp) "
        "using iceberg"
    )
    lab.insert(
        "history",
        "values (7, 'north', timestamp'2020-01-01', timestamp'2026-04-25 12:00:00'),"
        " (7, 'south', timestamp'2026-04-25 12:00:00', null), (7, 'moon', timestamp'2030-01-01', null)",
    )
    history = Table(lab.name("history"), valid=("since", "until"))
    pipeline, seen = Pipeline("as_of", grain=Day), SimpleNamespace(regions=None)

    @pipeline.step(
        reads={"orders": orders, "customers": history.as_of("ordered_at")},
        writes=Table(lab.name("out"), partition=Day("d"), key=["id"], write=Overwrite()),
    )
    def out(orders, customers):
        seen.regions = {row["region"] for row in customers.collect()}
        return as_of_join(orders, customers, on=["customer"], at="ordered_at", valid=("since", "until"))

    lab.run(pipeline, "2026-04-25")

    assert {row["id"]: row["region"] for row in lab.rows("out")} == {1: "north", 2: "south", 3: "south", 4: None}
    assert seen.regions == {"north", "south"}  # what begins after the window is not even shown


class Regions:
    """Orders of two days, and the regions in which their customer lived: one each day, and one from tomorrow on."""

    def __init__(self, lab, **contract):
        self.lab, self.pipeline, self.shown = lab, Pipeline("as_of", grain=Day), set()
        self.orders = lab.source(
            "orders",
            "id bigint, customer int, ordered_at timestamp, shipped_at timestamp, d date",
            "values (1, 7, timestamp'2026-04-24 12:00:00', timestamp'2026-04-24 13:00:00', date'2026-04-24'),"
            " (2, 7, timestamp'2026-04-25 12:00:00', timestamp'2026-04-26 13:00:00', date'2026-04-25')",
            **contract,
        )
        lab.spark.sql(
            f"create table {lab.name('history')} (customer int, region string, since timestamp, until timestamp) "
            "using iceberg"
        )
        lab.insert(
            "history",
            "values (7, 'west', timestamp'2020-01-01', timestamp'2026-04-25 00:00:00'),"
            " (7, 'north', timestamp'2026-04-25 00:00:00', timestamp'2026-04-26 00:00:00'),"
            " (7, 'south', timestamp'2026-04-26 00:00:00', null)",
        )
        self.history = Table(lab.name("history"), valid=("since", "until"))
        self.out = Table(lab.name("out"), partition=Day("d"), write=Overwrite())

    def run(self, orders, at, column=None):
        """Join orders with the regions as of a column, and sum up what was found on the day of the run."""

        @self.pipeline.step(reads={"orders": orders, "customers": self.history.as_of(column or at)}, writes=self.out)
        def out(orders, customers):
            self.shown = {row["region"] for row in customers.collect()}
            joined = as_of_join(orders, customers, on=["customer"], at=at, valid=("since", "until"))
            found = joined.orderBy("id").select("id", "region").collect()
            regions = ",".join(f"{row['id']}:{row['region']}" for row in found)
            return orders.limit(1).select(F.lit(regions).alias("regions"), F.lit("2026-04-25").cast("date").alias("d"))

        self.lab.run(self.pipeline, "2026-04-25")
        return self.lab.rows("out")[0]["regions"]


@pytest.mark.parametrize(
    ("contract", "at"), [({"event_time": "ordered_at"}, "ordered_at"), ({}, "d")], ids=["event time", "partition"]
)
def test_s22_versions_reach_as_far_back_as_the_rows_that_they_are_joined_to(lab, contract, at):
    case = Regions(lab, **contract)
    assert case.run(case.orders.window(lookback=days(1)), at) == "1:west,2:north"
    assert case.shown == {"west", "north"}  # what begins after the window is not even shown


def test_s22_a_column_that_no_input_is_cut_by_may_lie_outside_the_window(lab):
    case = Regions(lab, event_time="ordered_at")
    assert case.run(case.orders, "shipped_at") == "2:south"


def test_s22_an_as_of_column_that_no_other_input_has_is_refused(lab):
    case = Regions(lab, event_time="ordered_at")
    with pytest.raises(SchemaRefused) as caught:
        case.run(case.orders, "ordered_at", column="orderd_at")
    assert "no other input has the column orderd_at, as of which customers" in caught.value.message
    assert "Did you mean ordered_at?" in caught.value.message
    assert not lab.exists("out")


def test_s47_reading_the_own_output_is_refused(lab):
    pipeline = Pipeline("own", grain=Day)
    target = Table(lab.name("totals"), partition=Day("d"), write=Overwrite())

    with pytest.raises(DefinitionError, match="reads its own output"):
        pipeline.sql("totals", reads={"totals": target.latest()}, writes=target, query="select * from totals")
    with pytest.raises(DefinitionError, match="lookback"):
        pipeline.sql("totals", reads={"t": target}, writes=target, query="select 1", depends_on_past=True)
    assert pipeline.steps == {}


def test_s47_declared_it_goes_forward_one_partition_at_a_time(lab):
    raw = lab.source(
        "raw", "d date, n int", "values (date'2026-04-24', 1), (date'2026-04-25', 10), (date'2026-04-26', 100)"
    )
    pipeline = Pipeline("own", grain=Day)
    target = Table(lab.name("totals"), partition=Day("d"), key=["d"], write=Overwrite(), schema="d DATE, total INT")
    pipeline.sql(
        "totals",
        reads={"raw": raw, "past": target.window(lookback=days(1))},
        writes=target,
        depends_on_past=True,
        query="select d, n + coalesce((select max(total) from past), 0) as total from raw",
    )

    for day in ("2026-04-24", "2026-04-25", "2026-04-26"):
        lab.run(pipeline, day)

    totals = [(str(row["d"]), row["total"]) for row in lab.rows("totals")]
    assert totals == [("2026-04-24", 1), ("2026-04-25", 11), ("2026-04-26", 111)]
    # Again, out of order: its own partition and what lies after it are not part of the past.
    for day in ("2026-04-25", "2026-04-24", "2026-04-26"):
        assert lab.run(pipeline, day).steps[0].status == "unchanged"
    with pytest.raises(UsageError, match="one day at a time"):
        lab.run(pipeline, from_="2026-04-24", to="2026-04-27")
    # A corrected first day is carried forward by running the days in order.
    lab.sql("update {space}.raw set n = 2 where d = date'2026-04-24'")
    for day in ("2026-04-24", "2026-04-25", "2026-04-26"):
        lab.run(pipeline, day, skip_fresh=True)
    assert [row["total"] for row in lab.rows("totals")] == [2, 12, 112]


def test_s47_a_first_partition_without_a_declared_schema_says_what_to_add(lab):
    raw = lab.source("raw", "d date, n int", "values (date'2026-04-24', 1)")
    pipeline = Pipeline("own", grain=Day)
    target = Table(lab.name("totals"), partition=Day("d"), write=Overwrite())
    past = target.window(lookback=days(1))
    pipeline.sql(
        "totals", reads={"raw": raw, "past": past}, writes=target, query="select * from raw", depends_on_past=True
    )

    with lab.untouched("totals"), pytest.raises(SchemaRefused, match="no declared schema"):
        lab.run(pipeline, "2026-04-24")


def test_s47_a_gap_in_the_past_is_refused(lab):
    raw = lab.source("raw", "d date, n int", "select date'2026-04-24' + cast(id as int), 1 from range(4)")
    pipeline = Pipeline("own", grain=Day)
    target = Table(lab.name("totals"), partition=Day("d"), key=["d"], write=Overwrite(), schema="d DATE, total INT")
    pipeline.sql(
        "totals",
        reads={"raw": raw, "past": target.window(lookback=days(1))},
        writes=target,
        depends_on_past=True,
        query="select d, n + coalesce((select max(total) from past), 0) as total from raw",
    )
    lab.run(pipeline, "2026-04-24")

    with lab.untouched("totals"), pytest.raises(StoreRefused) as refused:
        lab.run(pipeline, "2026-04-26")

    assert "2026-04-25" in str(refused.value)
    assert "builds on its own past" in str(refused.value)


def test_s48_an_input_that_is_republished_meanwhile_is_read_at_its_pinned_version(lab):
    raw = lab.source("raw", RAW, ROWS)
    other = lab.source("other", RAW, ROWS)
    pinned = {name: str(lab.versions(name)[-1]) for name in ("raw", "other")}
    pipeline, once = Pipeline("moving", grain=Day), SimpleNamespace(moved=False)

    @pipeline.step(
        reads={"raw": raw, "other": other.latest()},
        writes=Table(lab.name("out"), partition=Day("d"), key=["id"], write=Overwrite()),
    )
    def out(raw, other):
        before = raw.count()
        if not once.moved:
            meanwhile(lambda: lab.sql("update {space}.raw set n = n + 1000"))
            meanwhile(lambda: lab.sql("delete from {space}.other"))
            once.moved = True
        assert raw.count() == before
        return raw.join(other.select("id", F.col("n").alias("m")), "id")

    lab.run(pipeline, "2026-04-25")

    assert [(row["n"], row["m"]) for row in lab.rows("out")] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    recorded = {record.name: record.version for record in lab.outputs("out")[0].inputs}
    assert recorded == pinned
    assert {record.name: record.version for record in lab.ledger.runs.list()[0].attempts[0].inputs} == pinned
    # The record says what was read, so the day is known to be stale, and the next run reads the new version.
    step = lab.run(pipeline, "2026-04-25", skip_fresh=True).steps[0]
    assert (step.status, step.rows) == ("published", 0)
