"""What it costs that events land once: each level against Spark's own append of the same stream.

1,000,000 events in 20 batches, with 0, 10 and 50 % repeats, from Parquet files into an Iceberg table. Plain Spark
appends what it is delivered, repeats included. For windowed mode also 100 small batches over 100 hours, whose keys are
remembered for three.

    python bench/stream.py [--events 1000000] [--batches 20] [--rounds 1] [--repeats 0,10,50] [--only process,write]

In each round every contender takes the same stream once, one after the other. The last line is one JSON object: per
level the worst throughput as a share of plain Spark's, and `state_growth`, how much larger Spark's state is in the last
ten batches of the hundred than in the second ten. `--repeats` and `--only` cut the measurement into pieces.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from twice import Day, InsertOnly, Pipeline, Table, hours
from twice import config as configuration
from twice.api import runtime
from twice.engine.run import Runtime
from twice.model.streams import Dedup
from twice.streams import Process, Windowed, Write
from twice.streams.control import Request, run_stream

SCHEMA = "event_id STRING, page STRING, amount DOUBLE, happened_at TIMESTAMP, d DATE"
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[stores.landing]
type = "files"
path = "landing"
format = "parquet"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "6g"
"spark.sql.shuffle.partitions" = "2"
"""
LEVELS: dict[str, Dedup] = {
    "process": Process("event_id"),
    "write": Write("event_id"),
    "windowed": Windowed("event_id", hours(24), event_time="happened_at"),
}
REPEATS = (0, 10, 50)


def events(spark: SparkSession, first: int, count: int, repeats: int, hour: float) -> DataFrame:
    """Make a batch of events, some of which were delivered before, in the last batch or in this one."""
    number = F.when(F.rand(first) < repeats / 100, F.greatest(F.lit(0), F.col("id") - F.lit(count // 2)))
    rows = spark.range(first, first + count).withColumn("n", number.otherwise(F.col("id")).cast("long"))
    moment = F.timestamp_seconds(F.lit(1_777_000_000) + F.lit(int(hour * 3600)) + F.pmod("n", F.lit(3600)))
    return rows.select(
        F.sha2(F.col("n").cast("string"), 224).alias("event_id"),
        F.concat(F.lit("/product/"), F.pmod("n", F.lit(500))).alias("page"),
        (F.pmod("n", F.lit(997)) / 7).alias("amount"),
        moment.alias("happened_at"),
        F.to_date(moment).alias("d"),
    )


def land(spark: SparkSession, folder: Path, batches: int, size: int, repeats: int, apart: float = 0.0) -> None:
    """Write one file per batch."""
    folder.mkdir(parents=True)
    for batch in range(batches):
        part = folder.parent / f"{folder.name}-part-{batch}"
        events(spark, batch * size, size, repeats, batch * apart).coalesce(1).write.parquet(str(part))
        next(part.glob("*.parquet")).rename(folder / f"{batch:04}.parquet")


def pipeline_of(source: Table, name: str, dedup: Dedup) -> Pipeline:
    table = Table(f"lake.bench.{name}", partition=Day("d"), key=["event_id"], write=InsertOnly(on_conflict="keep"))
    pipeline = Pipeline("bench", grain=Day)

    def rows(events: DataFrame) -> DataFrame:
        return events

    pipeline.stream(reads=source, writes=table, dedup=dedup, options={"maxFilesPerTrigger": "1"}, name=name)(rows)
    return pipeline


def by_twice(shop: Runtime, checkpoints: str, source: Table, name: str, dedup: Dedup) -> None:
    pipeline = pipeline_of(source, name, dedup)
    run_stream(shop, pipeline, pipeline.find_stream(None), checkpoints, Request(available_now=True))


def by_hand(shop: Runtime, folder: Path, name: str, checkpoints: str) -> None:
    session = shop.spark.newSession()
    session.sql(f"create table lake.bench.{name} ({SCHEMA}) using iceberg partitioned by (d)")
    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(folder))
    writer = rows.writeStream.option("checkpointLocation", f"{checkpoints}/{name}").option("fanout-enabled", "true")
    writer.trigger(availableNow=True).toTable(f"lake.bench.{name}").awaitTermination()


def timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def throughput(shop: Runtime, root: Path, checkpoints: str, asked: argparse.Namespace) -> dict[str, float]:
    """Compare levels with plain Spark; the worst share over the repeats."""
    levels = {level: dedup for level, dedup in LEVELS.items() if level in asked.only}
    found: dict[str, list[float]] = {level: [] for level in levels}
    for repeats in asked.repeats if levels else ():
        folder = root / "landing" / "web" / f"clicks{repeats}"
        land(shop.spark, folder, asked.batches, asked.events // asked.batches, repeats)
        distinct = shop.spark.read.parquet(str(folder)).select("event_id").distinct().count()
        source = Table(f"landing.web.clicks{repeats}", schema=SCHEMA)
        for round_ in range(asked.rounds):
            plain = timed(lambda: by_hand(shop, folder, f"plain{repeats}_{round_}", checkpoints))  # noqa: B023
            for level, dedup in levels.items():
                name = f"{level}{repeats}_{round_}"
                took = timed(lambda: by_twice(shop, checkpoints, source, name, dedup))  # noqa: B023
                rows = shop.spark.table(f"lake.bench.{name}").count()
                if rows != distinct:
                    raise SystemExit(f"{name}: {rows} rows of {distinct} events")
                found[level].append(plain / took)
                each = f"{took / asked.batches:.2f} s a batch, plain {plain / asked.batches:.2f} s"
                print(f"{repeats:2} % repeats, {level}: {each}: {plain / took:.2f}", flush=True)
    return {level: round(min(shares), 2) for level, shares in found.items()}


def state_growth(shop: Runtime, root: Path, checkpoints: str) -> float:
    """Run 100 batches an hour apart in windowed mode; compare the state of the last ones with that of early ones."""
    land(shop.spark, root / "landing" / "web" / "long", 100, 200, 0, apart=1.0)
    source = Table("landing.web.long", schema=SCHEMA)
    by_twice(shop, checkpoints, source, "long", Windowed("event_id", hours(3), event_time="happened_at"))
    batches = shop.ledger.streams.batches.list("bench", "long")
    kept = {batch.batch: batch.state_rows or 0 for batch in batches}
    early = max(rows for number, rows in kept.items() if 10 <= number < 20)
    last = max(rows for number, rows in kept.items() if 90 <= number < 100)
    print(f"state: at most {early} keys in batches 10 to 19, {last} in batches 90 to 99", flush=True)
    return round(last / early, 2)


def warm_up(shop: Runtime, root: Path, checkpoints: str, asked: Sequence[str] = (*LEVELS,)) -> None:
    folder = root / "landing" / "web" / "warm"
    land(shop.spark, folder, 3, 20_000, 10)
    by_hand(shop, folder, "warm_plain", checkpoints)
    for level, dedup in ((level, dedup) for level, dedup in LEVELS.items() if level in asked):
        by_twice(shop, checkpoints, Table("landing.web.warm", schema=SCHEMA), f"warm_{level}", dedup)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--repeats", type=lambda text: [int(each) for each in text.split(",")], default=REPEATS)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*LEVELS, "state_growth"])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "twice.toml").write_text(TOML)
        config = configuration.load(root / "twice.toml")
        with runtime(config) as shop:
            shop.spark.sql("create namespace if not exists lake.bench")
            # Both sides once, unmeasured: Spark compiles and loads classes.
            warm_up(shop, root, config.checkpoints, asked.only)
            found = throughput(shop, root, config.checkpoints, asked)
            if "state_growth" in asked.only:
                found["state_growth"] = state_growth(shop, root, config.checkpoints)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
