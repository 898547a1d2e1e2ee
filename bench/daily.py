"""What a user waits for: a day of 250,000 orders, two steps, each command a process of its own with Spark's start.

By hand: read, transform and overwrite two Iceberg tables in plain PySpark, without and with the usual assertions (row
count, unique key), with the same settings of Spark and Java's default options. `twice run`: the first time, again
(nothing changed), and again with `--skip-fresh`. Interleaved, medians.

Three more sides begin with `warmed`: the same commands with the class-data archive of Java that `twice doctor --warm`
made once, before the measured commands. The sides by hand and the other ones have none. `c1` is the first run with
Java's quick compiler alone, `c1_warmed` the two together.

    python bench/daily.py [--orders 250000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import overhead
from _processes import TWICE, interleaved, seconds_of, session_by_hand

from twice.engine.spark import jars

DAY = overhead.START.isoformat()
# What a command prints when it did what is measured.
_EXPECTED = {"first": "published", "again": "unchanged", "fresh": "fresh"}
_SIDES = ("hand", "checked", "first", "again", "fresh", "warmed_first", "warmed_again", "c1_first", "c1_warmed_first")
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[pipelines]
bench = "bench_daily:bench"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = "4"
"""
PIPELINE = """
import os

from examples.shop import pipeline as shop
from twice import Day, Overwrite, Pipeline, Table, days, gates

space = os.environ["BENCH_SPACE"]
bench = Pipeline("bench", grain=Day)
raw = Table("lake.raw.orders", partition=Day("ingestion_date"), event_time="ordered_at")
facts = Table(
    f"lake.{space}.fct_orders",
    partition=Day("order_date"),
    key=["order_id"],
    write=Overwrite(),
    lateness=days(3),
    gates=[gates.row_count(min=1), gates.not_null("amount_usd"), gates.range("amount_usd", min=0)],
)
summary = Table(
    f"lake.{space}.summary", partition=Day("order_date"), key=["order_date", "customer_id"], write=Overwrite()
)
bench.step(reads={"deliveries": raw}, writes=facts)(shop.orders)
query = shop.shop.steps["daily_customer_summary"].query
bench.sql("daily_customer_summary", reads={"orders": facts}, writes=summary, query=query)
"""


def work(folder: Path, side: str, space: str) -> None:
    """Do one side's work by hand, in this process."""
    spark = session_by_hand(folder)
    if side == "land":
        overhead.land(spark, 1, int(space))
    else:
        overhead.by_hand(spark, space, 1, checked=side == "checked")
    spark.stop()


def measured(folder: Path, side: str, number: int) -> float:
    """Run one side as a command of its own; return its seconds."""
    way, _, command = side.rpartition("_")
    # Tables of its own for each way to start Java and each round; a second run finds those of the first one.
    space = f"{way or 'twice'}{number}" if command in _EXPECTED else f"{side}{number}"
    environment = {"BENCH_SPACE": space, "XDG_CACHE_HOME": str(folder / ("warmed" if "warmed" in way else "cache"))}
    if "c1" in way:
        environment["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1"
    if command not in _EXPECTED:
        return seconds_of(_by_hand(folder, side, space), folder, environment=environment)
    words = [*TWICE, "run", "bench", "--for", DAY, *(["--skip-fresh"] if command == "fresh" else [])]
    return seconds_of(words, folder, expected=_EXPECTED[command], environment=environment)


def _by_hand(folder: Path, side: str, space: str) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--work", side, "--space", space, "--folder", str(folder)]


def prepare(folder: Path, orders: int) -> None:
    """Write the project and the raw orders, and make the archive in a cache of its own."""
    (folder / "twice.toml").write_text(TOML)
    (folder / "bench_daily.py").write_text(PIPELINE)
    for cache in ("cache", "warmed"):  # both have the jars; one has the archive, too
        (folder / cache / "twice").mkdir(parents=True)
        (folder / cache / "twice" / "ivy").symlink_to(jars.cache(), target_is_directory=True)
    seconds_of(_by_hand(folder, "land", str(orders)), folder)
    warmed = {"XDG_CACHE_HOME": str(folder / "warmed"), "BENCH_SPACE": "none"}
    took = seconds_of([*TWICE, "doctor", "--warm"], folder, environment=warmed)
    print(f"the class-data archive was made in {took:.0f} s", file=sys.stderr)


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--space", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.folder, options.work, options.space)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, options.orders)
        sides: dict[str, Callable[[int], float]] = {side: partial(measured, folder, side) for side in _SIDES}
        middle = interleaved(sides, options.rounds)
    result: dict[str, object] = {"bench": "daily", "orders": options.orders, "fresh_s": round(middle["fresh"], 2)}
    for way in ("", "warmed_"):
        result[f"{way}cold_vs_hand"] = round(middle[f"{way}first"] / middle["hand"], 3)
        result[f"{way}cold_vs_checked"] = round(middle[f"{way}first"] / middle["checked"], 3)
        result[f"{way}rerun_vs_hand"] = round(middle[f"{way}again"] / middle["hand"], 3)
    seconds = {f"{side}_s": round(found, 2) for side, found in middle.items() if side != "fresh"}
    print(json.dumps(result | seconds))


if __name__ == "__main__":
    main()
