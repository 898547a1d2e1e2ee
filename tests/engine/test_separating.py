"""Whether a stage may be computed in chunks: declared, ruled out by its contract, or proven from its plan."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from twice import Day, Hour, InsertOnly, Merge, Overwrite, Pipeline, Table, Whole, Window, days
from twice.engine.chunks.separability import Separability, separability
from twice.engine.plan import plan
from twice.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.project import Lab

pytestmark = pytest.mark.spark


class Steps:
    """Inputs that exist, and whether steps over them are separable."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        columns = "order_date date, customer_id bigint, amount bigint, at timestamp"
        values = "values (date'2026-04-01', 1, 2, timestamp'2026-04-01 01:00:00')"
        self.orders, self.payments, rates, _ = (
            lab.source(name, columns, values, by="order_date") for name in ("orders", "payments", "rates", "hourly")
        )
        self.rates = Table(rates.name)

    def table(self, **how: Any) -> Table:
        return Table(self.lab.name("t"), **{"partition": Day("order_date"), "write": Overwrite()} | how)

    def ask(self, pipeline: Pipeline) -> Separability:
        window = Window(
            pipeline.grain.parse("2026-04-01", pipeline.zone), pipeline.grain.parse("2026-04-04", pipeline.zone)
        )
        (stage,) = plan(pipeline, window, steps=[pipeline.ordered()[-1].name])
        return separability(self.lab.runtime, pipeline, stage)

    def of(self, function: Any, reads: Any = None, writes: Table | None = None, **how: Any) -> Separability:
        pipeline = Pipeline("p", grain=Day)
        pipeline.step(reads=reads or {"orders": self.orders}, writes=writes or self.table(), name="s", **how)(function)
        return self.ask(pipeline)

    def sql(self, query: str) -> Separability:
        pipeline = Pipeline("p", grain=Day)
        pipeline.sql("s", reads={"orders": self.orders, "payments": self.payments}, writes=self.table(), query=query)
        return self.ask(pipeline)


@pytest.fixture
def steps(lab) -> Steps:
    return Steps(lab)


def daily(orders: DataFrame) -> DataFrame:
    return orders.groupBy("order_date", "customer_id").agg(F.sum("amount").alias("amount"))


def test_a_step_that_keeps_days_apart_is_proven_without_a_spark_job(steps):
    before = steps.lab.jobs()
    assert steps.of(daily) == Separability(ok=True, reason="proven from its plan")
    assert steps.lab.jobs() == before


def test_a_query_is_proven_too(steps):
    query = "select o.order_date, sum(p.amount) paid from orders o join payments p using (order_date) group by 1"
    assert steps.sql(query).ok
    assert steps.sql("select max(order_date) order_date from orders") == Separability(
        ok=False, reason="aggregates over all rows without order_date"
    )


def test_the_reason_names_the_columns(steps):
    def by_customer(orders: DataFrame) -> DataFrame:
        return orders.groupBy("customer_id").agg(F.max("order_date").alias("order_date"))

    def ranked(orders: DataFrame) -> DataFrame:
        return orders.withColumn("rank", F.rank().over(Over.partitionBy("customer_id").orderBy("amount")))

    assert steps.of(by_customer).reason == "aggregates by customer_id without order_date"
    assert steps.of(ranked).reason == "has a window function by customer_id without order_date"


def test_what_is_declared_is_taken(steps):
    def ranked(orders: DataFrame) -> DataFrame:
        return orders.withColumn("rank", F.rank().over(Over.orderBy("amount")))

    assert steps.of(ranked, separable=True) == Separability(ok=True, reason="declared separable=True")
    assert steps.of(daily, separable=False) == Separability(ok=False, reason="declared separable=False")
    with pytest.raises(DefinitionError, match="must be True or False"):
        steps.of(daily, separable="yes")


def test_reads_across_days_are_not_separable(steps):
    def joined(orders: DataFrame, more: DataFrame) -> DataFrame:
        return orders.join(more.select("order_date"), "order_date", "left_semi")

    valid = Table(steps.rates.name, valid=("at", "at"))
    hourly = Table(steps.orders.name, partition=Hour("order_date"), event_time="at")
    hours = Table(steps.lab.name("hourly"), partition=Hour("at"))
    for more, reason in [
        (steps.payments.window(lookback=days(7)), "reads more 7 days back"),
        (hourly, "reads more by order_date and at, and not all of it by days"),
        (valid.as_of("at"), "reads more as of at"),
        (hours, "reads more by hour and writes by day"),
    ]:
        assert steps.of(joined, {"orders": steps.orders, "more": more}).reason == reason


def test_rows_that_arrive_late_are_told_apart_by_the_day_they_happened(steps):
    late = Table(steps.orders.name, partition=Day("order_date"), event_time="at")

    def happened(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.to_date("at").alias("order_date"), "customer_id").agg(
            F.max(F.struct("amount")).alias("n")
        )

    assert steps.of(happened, {"orders": late}, steps.table(lateness=days(3))).ok
    assert steps.of(daily, {"orders": late}).reason == ("aggregates by order_date, customer_id without the date of at")
    back = {"orders": late.window(lookback=days(1))}
    assert steps.of(happened, back).reason == "reads orders 1 day back"


def test_latest_reads_are_the_same_for_every_day(steps):
    def rated(orders: DataFrame, rates: DataFrame) -> DataFrame:
        return orders.join(rates.select("customer_id", F.col("amount").alias("rate")), "customer_id", "left")

    assert steps.of(rated, {"orders": steps.orders, "rates": steps.rates.latest()}).ok


def test_a_table_without_partitions_is_cut_by_its_event_time(steps):
    table = Table(steps.lab.name("rates"), event_time="at")

    def dated(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.to_date("at").alias("order_date")).count()

    assert steps.of(dated, {"orders": table}).ok
    assert not steps.of(daily, {"orders": table}).ok


def test_use_of_the_window_is_not_separable(steps):
    def windowed(orders: DataFrame, window: Window) -> DataFrame:
        return orders.withColumn("run", F.lit(str(window)))

    assert steps.of(windowed).reason == "uses the window"
    assert steps.sql("select *, :window_start from orders").reason == "uses the window"


def test_actions_inside_a_step_are_seen_also_on_empty_inputs(steps):
    def counted(orders: DataFrame) -> DataFrame:
        return orders.withColumn("n", F.lit(orders.count()))

    def guarded(orders: DataFrame) -> DataFrame:
        return orders.where("amount > 0") if orders.isEmpty() else orders

    def commanded(orders: DataFrame, spark: SparkSession) -> DataFrame:
        spark.sparkContext.parallelize([1]).sum()
        return orders

    jobs = steps.lab.jobs()
    assert steps.of(counted).reason == "reads rows while it is called: count()"
    assert steps.lab.jobs() == jobs
    steps.lab.spark.sql(f"delete from {steps.orders.name}")
    assert steps.of(guarded).reason == "reads rows while it is called: isEmpty()"
    assert steps.of(commanded).reason == "starts Spark jobs while it is called"


def test_nothing_is_read_or_written_while_a_step_is_only_looked_at(steps):
    reached = []

    def written(orders: DataFrame) -> DataFrame:
        with contextlib.suppress(Exception):
            orders.writeTo(steps.lab.name("copy")).create()
        reached.append("after")
        return orders

    def fetched(orders: DataFrame) -> DataFrame:
        reached.append(orders.toPandas())
        return orders

    def pivoted(orders: DataFrame) -> DataFrame:
        return orders.groupBy("order_date").pivot("customer_id").sum("amount")

    def listed(orders: DataFrame) -> DataFrame:
        return orders.groupBy("order_date").pivot("customer_id", [1, 2]).sum("amount")

    jobs = steps.lab.jobs()
    assert steps.of(written).reason == "changes something while it is called: writeTo()"
    assert not steps.lab.spark.catalog.tableExists(steps.lab.name("copy"))
    assert steps.of(fetched).reason == "reads rows while it is called: toPandas()"
    assert steps.of(pivoted).reason == "reads rows while it is called: pivot()"
    assert "reads rows" not in steps.of(listed).reason
    assert reached == []
    assert steps.lab.jobs() == jobs


def test_no_request_is_sent_while_a_step_is_only_looked_at(steps):
    with socket.create_server(("127.0.0.1", 0)) as service:
        service.settimeout(0)
        port = service.getsockname()[1]

        def converted(orders: DataFrame) -> DataFrame:
            with contextlib.suppress(Exception):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/rates", timeout=1).read()
            return orders

        def pooled(orders: DataFrame) -> DataFrame:
            with ThreadPoolExecutor(2) as pool:  # threads that are new to Spark reach it
                columns = list(pool.map(lambda n: orders.select(F.lit(n)).columns, range(2)))
            return orders.withColumn("n", F.lit(len(columns)))

        assert steps.of(converted).reason == f"opens a connection while it is called: 127.0.0.1:{port}"
        assert steps.of(pooled).reason == "proven from its plan"
        with pytest.raises(BlockingIOError):
            service.accept()


STATEMENTS = {
    "INSERT": "INSERT INTO {payments} SELECT * FROM {payments}",
    "MERGE": "MERGE INTO {payments} p USING {payments} o ON p.customer_id = o.customer_id WHEN MATCHED THEN DELETE",
    "CREATE": "CREATE TABLE {copy} AS SELECT * FROM {payments}",
    "WITH": "WITH x AS (SELECT * FROM {payments}) INSERT INTO {payments} SELECT * FROM x",
    "FROM": "FROM {payments} INSERT INTO {payments} SELECT * INSERT INTO {payments} SELECT *",
    "DELETE": "DELETE FROM {payments}",
    "DROP": "DROP TABLE {payments}",
}


def test_statements_are_not_carried_out_while_a_step_is_only_looked_at(steps):
    names = {"payments": steps.payments.name, "copy": steps.lab.name("copy")}
    for word, text in STATEMENTS.items():
        query = text.format(**names)

        def stated(orders: DataFrame, spark: SparkSession, query: str = query) -> DataFrame:
            spark.sql(query)
            return orders

        assert steps.of(stated).reason == f"changes something while it is called: sql({word} …)"

    def placed(orders: DataFrame, spark: SparkSession) -> DataFrame:
        spark.sql(f"INSERT INTO {steps.payments.name} SELECT * FROM {{rows}}", rows=orders)
        return orders

    assert steps.of(placed).reason == "changes something while it is called: sql(INSERT …)"
    assert len(steps.lab.rows("payments")) == 1
    assert not steps.lab.spark.catalog.tableExists(names["copy"])


def test_queries_and_views_of_a_step_are_followed(steps):
    def viewed(orders: DataFrame, spark: SparkSession) -> DataFrame:
        orders.createOrReplaceTempView("o")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW big AS SELECT * FROM o WHERE amount > 1")
        spark.sql("SET spark.sql.shuffle.partitions = 2")
        spark.sql("SELECT order_date, {n} AS n FROM {rows}", n=1, rows=orders)
        return spark.sql("WITH x AS (SELECT * FROM o) SELECT * FROM x")

    assert steps.of(viewed).reason == "proven from its plan"


def test_threads_of_a_step_are_watched_and_those_of_others_are_not(steps):
    others: list[int] = []

    def elsewhere() -> None:
        others.append(steps.lab.spark.range(3).count())

    def threaded(orders: DataFrame) -> DataFrame:
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        with ThreadPoolExecutor(1) as pool:
            return orders.withColumn("n", F.lit(pool.submit(orders.count).result()))

    assert steps.of(threaded).reason == "reads rows while it is called: count()"
    assert others == [3]


def test_tables_beside_the_inputs_are_seen(steps):
    name = steps.payments.name

    def sneaky(orders: DataFrame, spark: SparkSession) -> DataFrame:
        return orders.join(spark.table(name).select("customer_id"), "customer_id", "left_semi")

    assert steps.of(sneaky).reason == "reads a table that is not an input"


def test_random_steps_are_not_separable(steps):
    def random(orders: DataFrame) -> DataFrame:
        return orders.withColumn("r", F.rand())

    assert steps.of(random).reason.startswith("non-deterministic: ")
    assert steps.of(random, nondeterministic="a preview").reason == "non-deterministic: a preview"


@pytest.mark.parametrize(
    "how",
    [
        {"write": Merge(version="amount"), "key": ["customer_id"]},
        {"write": InsertOnly(), "key": ["customer_id"]},
        {"write": Whole(), "partition": None},
    ],
    ids=["merge", "insert only", "whole"],
)
def test_other_patterns_take_a_range_as_one_piece(steps, how):
    found = steps.of(daily, writes=steps.table(**how), separable=True)
    assert not found.ok
    assert "takes a range as one piece" in found.reason


def test_extracts_and_steps_on_their_own_past_are_never_separable(steps):
    pipeline = Pipeline("p", grain=Day)

    @pipeline.extract(writes=steps.table())
    def fetch(window: Window) -> list[dict[str, object]]:
        return []

    assert steps.ask(pipeline).reason == "fetches its window from outside"
    table = steps.table(schema="order_date DATE, amount BIGINT")
    reads = {"past": table.window(lookback=days(1)), "orders": steps.orders}
    with pytest.raises(DefinitionError, match="builds on its own past, so its partitions cannot be computed together"):
        steps.of(lambda past, orders: past, reads, table, depends_on_past=True, separable=True)


def test_inputs_that_are_not_there_yet_leave_it_open(steps):
    gone = Table(steps.lab.name("gone"), partition=Day("order_date"))
    found = steps.of(daily, {"orders": gone})
    assert not found.ok
    assert found.reason.startswith("not known yet: step s: its input orders")
