"""Backfill against plain PySpark: many days into a fact table and a daily customer summary, in Iceberg.

Both sides read the same landed orders. By hand: a loop of daily jobs, and chunked jobs of 7, 15, 30 and 90 days,
each of which reads, transforms and overwrites its days, without any checks. By `twice`: one backfill with
`--chunk auto`, with gates, digests, key checks, the proof of separability and its check by one day alone. Everything
runs interleaved in one Spark, after two rounds that only warm it up; the fastest of the hand-written chunk sizes is
the one to compare with. At the end the same backfill again: everything is fresh.

With `--cold`, each side is a command of its own in each round, with Spark's start, as a user waits for it; no round is
left out. By `twice` it is `twice backfill`.

    python bench/backfill.py [--cold] [--wide-days 90] [--wide-orders 3000000] [--narrow-days 365]
                             [--narrow-orders 1000] [--rounds 3] [--chunks 7,15,30,90]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from _processes import TWICE, interleaved, seconds_of, session_by_hand
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from twice import Day, Overwrite, Pipeline, Table, Window, gates, key_of
from twice import config as configuration
from twice.api import runtime
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.engine.run import Runtime

START = date(2025, 1, 1)
# Rounds until Java has compiled most of what all sides run often.
_WARM = 2
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "6g"
"spark.sql.shuffle.partitions" = "4"
"""
PIPELINE = """
import os

import backfill

bench = backfill.pipeline_of(os.environ["BENCH_RAW"], os.environ["BENCH_SPACE"])
"""


def land(spark: SparkSession, raw: str, days: int, orders: int) -> None:
    """Write raw orders, one in twenty delivered twice; all sides read them."""
    spark.sql("create namespace if not exists lake.raw")
    spark.sql(
        f"create table {raw} (order_id bigint, order_date date, customer_id bigint, amount decimal(12,2), "
        "version bigint) using iceberg partitioned by (order_date)"
    )
    each = max(1, orders // days)
    start = F.lit(START.isoformat()).cast("date")
    ids = spark.range(0, each * days, 1, 8)
    rows = ids.select(
        F.col("id").alias("order_id"),
        F.date_add(start, (F.col("id") / each).cast("int")).alias("order_date"),
        (F.xxhash64("id") % 5_000).alias("customer_id"),
        (F.abs(F.xxhash64("id", F.lit(7)) % 100_000) / 100).cast("decimal(12,2)").alias("amount"),
        F.lit(1).cast("bigint").alias("version"),
    )
    again = rows.where("order_id % 20 = 0").withColumn("version", F.lit(2).cast("bigint"))
    both = rows.unionByName(again).repartition("order_date").sortWithinPartitions("order_date")
    both.writeTo(raw).append()


def facts_of(raw: DataFrame) -> DataFrame:
    """Deduplicate deliveries and give each order a hashed key."""
    newest = raw.groupBy("order_date", "order_id").agg(
        F.max_by("customer_id", "version").alias("customer_id"), F.max_by("amount", "version").alias("amount")
    )
    return newest.withColumn("order_key", key_of("order_id"))


def summary_of(facts: DataFrame) -> DataFrame:
    """Sum up each customer's day."""
    return facts.groupBy("order_date", "customer_id").agg(
        F.count("*").alias("orders"), F.sum("amount").cast("decimal(18,2)").alias("amount")
    )


def pipeline_of(raw: str, space: str) -> Pipeline:
    """Build the pipeline that reads the raw orders and writes into a namespace."""
    source = Table(raw, partition=Day("order_date"))
    facts = Table(
        f"lake.{space}.facts",
        partition=Day("order_date"),
        key=["order_key"],
        write=Overwrite(),
        gates=[gates.row_count(min=1), gates.not_null("amount"), gates.range("amount", min=0)],
    )
    summary = Table(
        f"lake.{space}.summary", partition=Day("order_date"), key=["order_date", "customer_id"], write=Overwrite()
    )
    pipeline = Pipeline("bench", grain=Day)
    pipeline.step(reads={"raw": source}, writes=facts, name="facts")(facts_of)
    pipeline.step(reads={"facts": facts}, writes=summary, name="summary")(summary_of)
    return pipeline


def by_twice(shared: Runtime, raw: str, space: str, days: int) -> tuple[Project, Request]:
    """Build the pipeline and the request of a backfill of all days."""
    pipeline = pipeline_of(raw, space)
    zone = pipeline.zone
    window = Window(Day.parse(START.isoformat(), zone), Day.parse((START + timedelta(days=days)).isoformat(), zone))
    return Project(shared, pipeline), Request("bench", window)


def by_hand(spark: SparkSession, raw: str, space: str, days: int, size: int) -> None:
    """Do the same in plain PySpark, so many days a job: read, transform, overwrite."""
    spark.sql(f"create namespace if not exists lake.{space}")
    for first in range(0, days, size):
        start, end = START + timedelta(days=first), START + timedelta(days=min(days, first + size))
        mine = (F.col("order_date") >= F.lit(start)) & (F.col("order_date") < F.lit(end))
        _overwrite(spark, f"lake.{space}.facts", facts_of(spark.table(raw).where(mine)), mine)
        _overwrite(spark, f"lake.{space}.summary", summary_of(spark.table(f"lake.{space}.facts").where(mine)), mine)


def _overwrite(spark: SparkSession, name: str, rows: DataFrame, mine: object) -> None:
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
    spark.sql(f"create table if not exists {name} ({columns}) using iceberg partitioned by (order_date)")
    rows.writeTo(name).overwrite(mine)  # type: ignore[arg-type]


def measure(
    shared: Runtime, name: str, days: int, orders: int, sizes: list[int], rounds: int, *, loop: bool
) -> tuple[dict[str, float], float]:
    """Time all sides, interleaved; return the median seconds of each, and of the backfill with everything fresh."""
    spark, raw = shared.spark, f"lake.raw.{name}"
    land(spark, raw, days, orders)
    fresh: list[float] = []

    def backfill(space: str) -> None:
        spark.sql(f"create namespace if not exists lake.{space}")
        project, request = by_twice(shared, raw, space, days)
        if project.start(request).exit_code:
            raise AssertionError("the backfill failed")

    def again(space: str) -> None:
        project, request = by_twice(shared, raw, space, days)
        started = time.monotonic()
        if project.start(request).status != "nothing to do":
            raise AssertionError("not everything is fresh")
        fresh.append(time.monotonic() - started)

    sides: dict[str, Callable[[str], None]] = {"twice": backfill}
    sides |= {f"hand{size}": lambda space, size=size: by_hand(spark, raw, space, days, size) for size in sizes}
    if loop:
        sides["loop"] = lambda space: by_hand(spark, raw, space, days, 1)
    times: dict[str, list[float]] = {side: [] for side in sides}
    for round_ in range(1 - _WARM, rounds + 1):  # the first rounds warm up and do not count
        for side, work in sides.items():
            space = f"{name}_{side}_{round_ + _WARM}"
            started = time.monotonic()
            if not (side == "loop" and round_ < 1):  # a loop is long enough to be warm at its end
                work(space)
            seconds = time.monotonic() - started
            print(f"{name} round {round_} {side:8} {seconds:7.2f} s", file=sys.stderr)
            if round_ > 0:
                times[side].append(seconds)
        again(f"{name}_twice_{round_ + _WARM}")
    return {side: statistics.median(found) for side, found in times.items()}, statistics.median(fresh)


def work(folder: Path, side: str, raw: str, space: str, days: int, orders: int) -> None:
    """Do one side's work by hand, in this process."""
    spark = session_by_hand(folder)
    if side == "land":
        land(spark, raw, days, orders)
    else:
        by_hand(spark, raw, space, days, int(side.removeprefix("hand")))
    spark.stop()


def measure_cold(
    folder: Path, name: str, days: int, orders: int, sizes: list[int], rounds: int, *, loop: bool
) -> dict[str, float]:
    """Time all sides, each as a command of its own; return the median seconds of each."""
    raw = f"lake.raw.{name}"

    def command(side: str, space: str) -> list[str]:
        asked = [f"--work={side}", f"--raw={raw}", f"--space={space}", f"--wide-days={days}", f"--wide-orders={orders}"]
        return [sys.executable, str(Path(__file__).resolve()), *asked, f"--folder={folder}"]

    def hand(size: int, number: int) -> float:
        return seconds_of(command(f"hand{size}", f"cold_{name}_hand{size}_{number}"), folder)

    def backfill(number: int) -> float:
        space = {"BENCH_RAW": raw, "BENCH_SPACE": f"cold_{name}_twice_{number}"}
        words = ["backfill", "bench", "--from", START.isoformat(), "--to", (START + timedelta(days=days)).isoformat()]
        return seconds_of([*TWICE, *words], folder, environment=space)

    seconds_of(command("land", "raw"), folder)
    sides: dict[str, Callable[[int], float]] = {"twice": backfill}
    sides |= {f"hand{size}": partial(hand, size) for size in sizes}
    if loop:
        sides["loop"] = partial(hand, 1)
    return interleaved(sides, rounds, title=f"cold {name} ")


def cold(options: argparse.Namespace, sizes: list[int]) -> dict[str, object]:
    """Measure processes of their own; return what is printed as JSON."""
    result: dict[str, object] = {"bench": "backfill", "cold": True}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "twice.toml").write_text(TOML + '[pipelines]\nbench = "bench_backfill:bench"\n')
        (folder / "bench_backfill.py").write_text(PIPELINE)
        for kind, days, orders in _workloads(options):
            middle = measure_cold(folder, kind, days, orders, sizes, options.rounds, loop=kind == "narrow")
            best = min(seconds for side, seconds in middle.items() if side.startswith("hand"))
            result[f"cold_{kind}_vs_best"] = round(middle["twice"] / best, 2)
            if "loop" in middle:
                result[f"cold_{kind}_vs_loop"] = round(middle["loop"] / middle["twice"], 2)
            result |= {f"cold_{kind}_{side}_s": round(seconds, 2) for side, seconds in middle.items()}
    return result


def _workloads(options: argparse.Namespace) -> list[tuple[str, int, int]]:
    found = [
        ("wide", options.wide_days, options.wide_orders),
        ("narrow", options.narrow_days, options.narrow_days * options.narrow_orders),
    ]
    return [each for each in found if each[0] in options.kinds.split(",")]


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--wide-days", type=int, default=90)
    parser.add_argument("--wide-orders", type=int, default=3_000_000)
    parser.add_argument("--narrow-days", type=int, default=365)
    parser.add_argument("--narrow-orders", type=int, default=1_000, help="orders per day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunks", default="7,15,30,90")
    parser.add_argument("--kinds", default="wide,narrow")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--raw", help=argparse.SUPPRESS)
    parser.add_argument("--space", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.folder, options.work, options.raw, options.space, options.wide_days, options.wide_orders)
        return
    sizes = [int(size) for size in options.chunks.split(",")]
    if options.cold:
        print(json.dumps(cold(options, sizes)))
        return
    result: dict[str, object] = {"bench": "backfill"}
    fresh: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "twice.toml"
        file.write_text(TOML)
        with runtime(configuration.load(file)) as shared:
            for name, days, orders in _workloads(options):
                middle, quick = measure(shared, name, days, orders, sizes, options.rounds, loop=True)
                best = min(seconds for side, seconds in middle.items() if side.startswith("hand"))
                fresh.append(quick)
                result[f"{name}_vs_loop"] = round(middle["loop"] / middle["twice"], 2)
                result[f"{name}_vs_best"] = round(middle["twice"] / best, 2)
                result |= {f"{name}_{side}_s": round(seconds, 2) for side, seconds in middle.items()}
    print(json.dumps(result | {"fresh_s": round(max(fresh), 2)}))


if __name__ == "__main__":
    main()
