"""What a run costs by itself: one step of 100 rows a day, 30 days one by one, by twice and by hand.

Both sides read the day from the same Iceberg table, group it and replace the day in a table of the same kind: by hand
with one overwrite (Iceberg), `replaceWhere` (Delta), or DELETE and INSERT in one transaction (Postgres). Java is warm:
the first days do not count. Interleaved day by day, medians. `calls` are the calls from Python to Java, `jobs` the
Spark jobs.

    python bench/tiny.py [--days 30] [--rows 100] [--stores iceberg,delta,postgres] [--profile]

`--profile` prints where the Java calls and the seconds of a day go, verb by verb.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support import servers
from tests.support.counting import java_calls
from twice import Day, Overwrite, Pipeline, Table
from twice import config as configuration
from twice.api import runtime
from twice.engine.events import Event
from twice.engine.plan import plan
from twice.engine.run import Runtime, execute

START = date(2026, 1, 1)
WARM = 8  # days that do not count
RAW = "lake.raw.events"
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[stores.warehouse]
type = "delta"
path = "delta"
[stores.serving]
type = "sql"
url = "{url}"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "2g"
"spark.sql.shuffle.partitions" = "2"
"""


def totals(events: DataFrame) -> DataFrame:
    """Add up a day by region."""
    return events.groupBy("d", "region").agg(F.sum("amount").alias("amount"), F.count("*").alias("events"))


@dataclass
class Side:
    """One of the two ways, and what its days took."""

    work: Callable[[date], None]
    seconds: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)


@dataclass
class Profile:
    """Seconds and Java calls between the events of a run, added up over the measured days."""

    seconds: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    sent: list[str] = field(default_factory=list)
    since: float = 0.0
    counted: int = 0

    def start(self, sent: list[str]) -> None:
        """Begin a day."""
        self.sent, self.since, self.counted = sent, time.monotonic(), 0

    def __call__(self, event: Event) -> None:
        """Add what went before an event to its name."""
        now = time.monotonic()
        self.seconds[event.state] += now - self.since
        self.calls[event.state] += len(self.sent) - self.counted
        self.since, self.counted = now, len(self.sent)


def pipeline_into(name: str) -> Pipeline:
    """Return the pipeline that writes one table."""
    made = Pipeline("tiny", grain=Day)
    made.step(
        reads={"events": Table(RAW, partition=Day("d"))},
        writes=Table(name, partition=Day("d"), key=["d", "region"], write=Overwrite()),
    )(totals)
    return made


def by_twice(shared: Runtime, name: str) -> Callable[[date], None]:
    """Run the step for a day."""
    pipeline = pipeline_into(name)

    def work(day: date) -> None:
        result = execute(shared, pipeline, plan(pipeline, Day.unit(day.isoformat(), pipeline.zone)))
        if result.error:
            raise result.error

    return work


def _day(spark: SparkSession, day: date) -> DataFrame:
    return totals(spark.table(RAW).where(F.col("d") == F.lit(day)))


def by_hand_iceberg(spark: SparkSession) -> Callable[[date], None]:
    """Overwrite the day."""
    name = "lake.mart.by_hand"
    spark.sql("create namespace if not exists lake.mart")
    spark.sql(
        f"create table {name} (d date, region string, amount bigint, events bigint) using iceberg partitioned by (d)"
    )
    return lambda day: _day(spark, day).writeTo(name).overwrite(F.col("d") == F.lit(day))


def by_hand_delta(spark: SparkSession, folder: Path) -> Callable[[date], None]:
    """Replace the day."""
    place = str(folder / "by_hand")
    empty = spark.sql("select date'2026-01-01' d, '' region, 0L amount, 0L events").where("false")
    empty.write.format("delta").partitionBy("d").save(place)

    def work(day: date) -> None:
        writer = _day(spark, day).write.format("delta").mode("overwrite")
        writer.option("replaceWhere", f"d = date'{day.isoformat()}'").save(place)

    return work


def by_hand_postgres(spark: SparkSession, url: str) -> Callable[[date], None]:
    """Delete the day and insert it, in one transaction."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "create table by_hand (d date, region text, amount bigint, events bigint, primary key (d, region))"
        )

    def work(day: date) -> None:
        rows = [tuple(row) for row in _day(spark, day).collect()]
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("delete from by_hand where d = %s", (day,))
            cursor.executemany("insert into by_hand values (%s, %s, %s, %s)", rows)

    return work


@contextmanager
def project(folder: Path, postgres: str, listener: Callable[[Event], None]) -> Iterator[Runtime]:
    """Open a project with a day's events for each measured day."""
    file = folder / "twice.toml"
    file.write_text(TOML.format(url=postgres or "sqlite:///serving.db"))
    with runtime(configuration.load(file), listener=listener) as shared:
        yield shared


def land(spark: SparkSession, days: int, rows: int) -> None:
    """Write the events once; both sides read them."""
    spark.sql("create namespace if not exists lake.raw")
    events = spark.range(days * rows).select(
        F.date_add(F.lit(START), (F.col("id") % days).cast("int")).alias("d"),
        F.concat(F.lit("region "), F.col("id") % 7).alias("region"),
        (F.col("id") % 1000).alias("amount"),
    )
    events.repartition("d").sortWithinPartitions("d").writeTo(RAW).using("iceberg").partitionedBy(F.col("d")).create()


def measure(spark: SparkSession, sides: dict[str, Side], days: int, profile: Profile | None) -> None:
    """Run every day by both sides, one after the other."""
    for number in range(WARM + days):
        day = START + timedelta(days=number)
        for name, side in sides.items():
            with java_calls(spark) as sent:
                if profile and name == "twice":
                    profile.start(sent)
                before, started = _jobs(spark), time.monotonic()
                side.work(day)
                seconds = time.monotonic() - started
            if number == WARM and profile and name == "twice":
                profile.seconds.clear()
                profile.calls.clear()
            if number >= WARM:
                side.seconds.append(seconds)
                side.calls.append(len(sent))
                side.jobs.append(_jobs(spark) - before)


def _jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())  # type: ignore[union-attr]


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--stores", default="iceberg,delta,postgres")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    chosen = options.stores.split(",")
    found: dict[str, Any] = {"bench": "tiny"}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = ""
        if "postgres" in chosen:
            server = stack.enter_context(servers.running(servers.PostgresServer))
            url = server.database()
        profile = Profile() if options.profile else None
        shared = stack.enter_context(project(folder, url, profile or (lambda _event: None)))
        spark = shared.spark
        land(spark, WARM + options.days, options.rows)
        hands: dict[str, Callable[[], Callable[[date], None]]] = {
            "iceberg": lambda: by_hand_iceberg(spark),
            "delta": lambda: by_hand_delta(spark, folder),
            "postgres": lambda: by_hand_postgres(spark, url),
        }
        names = {"iceberg": "lake.mart.tiny", "delta": "warehouse.mart.tiny", "postgres": "serving.public.tiny"}
        for store in chosen:
            sides = {"twice": Side(by_twice(shared, names[store])), "hand": Side(hands[store]())}
            measure(spark, sides, options.days, profile)
            middle = {name: statistics.median(side.seconds) for name, side in sides.items()}
            ratio = round(middle["twice"] / middle["hand"], 2)
            found["tiny_vs_hand" if store == "iceberg" else f"tiny_vs_hand_{store}"] = ratio
            for name, side in sides.items():
                calls, jobs = statistics.median(side.calls), statistics.median(side.jobs)
                print(
                    f"{store:9} {name:6} {middle[name]:6.3f} s  {calls:6.0f} calls  {jobs:3.0f} jobs", file=sys.stderr
                )
                found[f"{store}_{name}_s"] = round(middle[name], 3)
            if profile:
                for state, seconds in profile.seconds.most_common():
                    each = profile.calls[state] / options.days
                    print(f"  until {state:10} {seconds / options.days:6.3f} s  {each:6.0f} calls", file=sys.stderr)
                profile = Profile()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
