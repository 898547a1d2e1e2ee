"""What a user waits for: a day of 250,000 orders, two steps, each command a process of its own with Spark's start.

By hand: read, transform and overwrite two Iceberg tables in plain PySpark, without and with the usual assertions (row
count, unique key). `twice run`: the first time, again (nothing changed), and again with `--skip-fresh`. Interleaved,
medians.

    python bench/daily.py [--orders 250000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import overhead

from twice import config as configuration
from twice.engine.spark import session

ROOT = Path(__file__).parent.parent
DAY = overhead.START.isoformat()
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
    spark = session.start(configuration.load(folder / "twice.toml"))
    if side == "land":
        overhead.land(spark, 1, int(space))
    else:
        overhead.by_hand(spark, space, 1, checked=side == "checked")
    spark.stop()


def measured(folder: Path, side: str, space: str) -> float:
    """Run one side as a command of its own; return its seconds."""
    path = os.pathsep.join([str(ROOT), str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "BENCH_SPACE": space, "PYTHONPATH": path}
    twice = [sys.executable, "-m", "twice", "-q", "run", "bench", "--for", DAY]
    commands = {
        "first": twice,
        "again": twice,
        "fresh": [*twice, "--skip-fresh"],
    }
    by_hand = [sys.executable, str(Path(__file__).resolve()), "--work", side, "--space", space, "--folder", str(folder)]
    started = time.monotonic()
    done = subprocess.run(
        commands.get(side, by_hand), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - started
    if done.returncode:
        raise RuntimeError(f"{side}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    expected = {"first": "published", "again": "unchanged", "fresh": "fresh"}.get(side, "")
    if expected not in done.stdout:
        raise RuntimeError(f"{side}: not {expected}:\n{done.stdout}")
    return seconds


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
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "twice.toml").write_text(TOML)
        (folder / "bench_daily.py").write_text(PIPELINE)
        measured(folder, "land", str(options.orders))
        for number in range(options.rounds):
            for side in ("hand", "checked", "first", "again", "fresh"):
                space = f"twice{number}" if side in {"first", "again", "fresh"} else f"{side}{number}"
                seconds = measured(folder, side, space)
                times.setdefault(side, []).append(seconds)
                print(f"round {number} {side:8} {seconds:6.2f} s", file=sys.stderr)
    middle = {side: statistics.median(seconds) for side, seconds in times.items()}
    print(
        json.dumps(
            {
                "bench": "daily",
                "cold_vs_hand": round(middle["first"] / middle["hand"], 3),
                "cold_vs_checked": round(middle["first"] / middle["checked"], 3),
                "rerun_vs_hand": round(middle["again"] / middle["hand"], 3),
                "fresh_s": round(middle["fresh"], 2),
                **{f"{side}_s": round(seconds, 2) for side, seconds in middle.items() if side != "fresh"},
                "orders": options.orders,
            }
        )
    )


if __name__ == "__main__":
    main()
