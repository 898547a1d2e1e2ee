"""Healthy pipelines of every store, pattern and grain: no check may find anything in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from twice import (
    Day,
    Hour,
    InsertOnly,
    Merge,
    Month,
    Overwrite,
    Pipeline,
    QuarterHour,
    Table,
    Week,
    Whole,
    days,
    gates,
    key_of,
)
from twice.effects import Webhook

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = (
    "event_id bigint, tenant string, kind string, amount decimal(9,2), at timestamp, "
    "d date, h timestamp, q timestamp, m date"
)


def deliver(spark: SparkSession) -> None:
    """Create the source of all of them: 960 events over two months, two tenants, some a day late."""
    spark.sql("create namespace if not exists lake.world")
    spark.sql(f"create table lake.world.events ({EVENTS}) using iceberg partitioned by (d)")
    at = "timestamp'2026-03-31 20:00:00' + make_interval(0, 0, 0, 0, id % 60, id div 60 % 4 * 15, 0)"
    spark.sql(f"""
        insert into lake.world.events
        select id, if(id % 3 = 0, 'north', 'south'), concat('k', id % 4), cast(id as decimal(9,2)) / 4, at,
               date_add(date(at), int(id % 10 = 0)), date_trunc('HOUR', at), at, date(date_trunc('MONTH', at))
        from (select id, {at} as at from range(960))""")


def _source(**contract: object) -> Table:
    return Table("lake.world.events", **contract)  # type: ignore[arg-type]


def _hourly() -> Pipeline:
    """Iceberg, Overwrite, by the hour; events may be delivered twice, and the hour is reported once."""
    found = Pipeline("hourly", grain=Hour)
    by_hour = Table("lake.world.by_hour", partition=Hour("h"), key=["h", "kind"], write=Overwrite(),
                    gates=[gates.row_count(min=1), gates.not_null("amount")])  # fmt: skip

    @found.step(reads={"events": _source(event_time="at", key=["event_id"])}, writes=by_hour)
    def sums(events: DataFrame) -> DataFrame:
        once = events.groupBy("event_id").agg(F.max(F.struct("h", "kind", "amount")).alias("event")).select("event.*")
        return once.groupBy("h", "kind").agg(F.sum("amount").alias("amount"))

    @found.effect(after=by_hour, to=Webhook("http://127.0.0.1:9/hook", marker="ref {key}"), on_unknown="ask")
    def report(rows: DataFrame) -> str:
        return f"{rows.agg(F.sum('amount')).collect()[0][0]} in this hour"

    return found


def _daily() -> Pipeline:
    """Delta, InsertOnly, by the day, with what comes late."""
    found = Pipeline("daily", grain=Day)
    seen = Table("warehouse.world.seen", partition=Day("day"), key=["event_id"], write=InsertOnly(), lateness=days(1))

    @found.step(reads={"events": _source(partition=Day("d"), event_time="at")}, writes=seen)
    def land(events: DataFrame) -> DataFrame:
        return events.select("event_id", "tenant", "amount", F.to_date("at").alias("day"))

    return found


def _monthly() -> Pipeline:
    """Parquet, Overwrite, by the month, in SQL."""
    found = Pipeline("monthly", grain=Month)
    totals = Table("files.world.totals", partition=Month("m"), key=["m", "tenant"], write=Overwrite())
    found.sql(
        "totals",
        reads={"events": _source(event_time="at")},
        writes=totals,
        query="select m, tenant, count(*) as events, sum(amount) as amount from events group by m, tenant",
    )
    return found


def _tenants() -> Pipeline:
    """Postgres, Merge by version, and Iceberg with a dimension, by the day, run by the week."""
    found = Pipeline("tenants", grain=Week)
    newest = Table("server.public.newest", key=["tenant", "kind"], write=Merge(version="at"))
    by_tenant = Table("lake.world.by_tenant", partition=Day("d"), dimensions=["tenant"], key=["tenant", "kind"],
                      write=Overwrite())  # fmt: skip
    events = _source(partition=Day("d"), dimensions=["tenant"])

    @found.step(reads={"events": events}, writes=newest)
    def merge(events: DataFrame) -> DataFrame:
        best = F.max(F.struct("at", "event_id", "amount"))
        return events.groupBy("tenant", "kind").agg(best.alias("best")).select("tenant", "kind", "best.*")

    @found.step(reads={"events": events}, writes=by_tenant)
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("d", "tenant", "kind").agg(F.count("*").alias("events"))

    return found


def _stock() -> Pipeline:
    """SQLite, Whole, from what another step keeps in Iceberg by the quarter of an hour."""
    found = Pipeline("stock", grain=QuarterHour)
    moves = Table("lake.world.moves", partition=QuarterHour("q"), key=["move_id"], write=Overwrite())
    held = Table("serving.main.held", key=["kind"], write=Whole(), gates=[gates.unique("kind")])

    @found.step(reads={"events": _source(event_time="at")}, writes=moves)
    def take(events: DataFrame) -> DataFrame:
        return events.select("q", "kind", "amount", key_of("event_id").alias("move_id"))

    @found.step(reads={"moves": moves.latest()}, writes=held)
    def hold(moves: DataFrame) -> DataFrame:
        return moves.groupBy("kind").agg(F.sum("amount").alias("amount"))

    return found


# By these names other processes import them.
hourly, daily, monthly, tenants, stock = _hourly(), _daily(), _monthly(), _tenants(), _stock()
PIPELINES = {pipeline.name: pipeline for pipeline in (hourly, daily, monthly, tenants, stock)}
UNITS = {
    "hourly": "2026-04-01T10",
    "daily": "2026-04-01",
    "monthly": "2026-04",
    "tenants": "2026-03-30",
    "stock": "2026-04-01T10:15",
}
