"""Many partitions: how long `twice status` and the plan of a backfill take, and what they need.

A ledger of a pipeline with two steps is filled as chunked runs fill it: each partition with its own inputs. Then
`twice status` lists all partitions of both steps in a process of its own, and a backfill of the smaller ledger is
planned. Best of three. Small and large are compared, so that growth shows.

    python bench/scale.py [--partitions 100000] [--plan 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parent.parent
START = datetime(2014, 1, 1, tzinfo=timezone.utc)
CHUNK = 500
MODULE = """
from twice import Hour, Overwrite, Pipeline, Table

scale = Pipeline("scale", grain=Hour)
raw = Table("lake.raw.events", partition=Hour("hour"), key=["id"], write=Overwrite())
facts = Table("lake.core.events", partition=Hour("hour"), key=["id"], write=Overwrite())

@scale.extract(writes=raw)
def land(window):
    yield {"id": 1, "hour": window.start}

@scale.step(reads={"raw": raw}, writes=facts)
def clean(raw):
    return raw
"""
TOML = """
[pipelines]
scale = "scale_jobs:scale"
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
"""


def fill(folder: Path, partitions: int) -> None:
    """Write a project and its ledger: that many partitions, half of them of each step, and all of them done."""
    (folder / "scale_jobs.py").write_text(MODULE)
    (folder / "twice.toml").write_text(TOML)
    from twice import config as configuration
    from twice.engine.fingerprint import fingerprint
    from twice.ledger import InputRecord, Output, open_ledger
    from twice.loading import find_pipeline
    from twice.model.scopes import Scope
    from twice.model.windows import Window

    config = configuration.load(folder / "twice.toml")
    ledger = open_ledger(config.ledger)
    scale = find_pipeline(config, "scale")
    hour = timedelta(hours=1)
    for step in scale.ordered():
        table, code = step.writes.name, fingerprint(step)
        numbers = iter(range(partitions // 2))
        while chunk := list(islice(numbers, CHUNK)):
            scopes = [Scope(Window(START + number * hour, START + (number + 1) * hour)) for number in chunk]
            whole = Scope(Window(START + chunk[0] * hour, START + (chunk[-1] + 1) * hour))
            run = ledger.start_run("scale", whole, command="bench")
            row = ledger.start_attempt(run, step.name, table, 1, whole, code=code)
            claim = ledger.claim(table, [whole], ttl=timedelta(minutes=1), run=run)
            outputs = []
            for number, scope in zip(chunk, scopes, strict=True):
                start = (START + number * hour).isoformat()
                read = InputRecord("raw", "lake.raw.events", "window", "7", {start: f"digest:{_digest(number)}"})
                inputs = (read,) if step.reads else ()
                held = Output(
                    table, scope, 1000, _digest(number), f"{number:016x}", "7", "scale", step.name, code, inputs
                )
                outputs.append(held)
            ledger.record(claim, row, outputs)
            ledger.finish_run(run, "done")


def _digest(number: int) -> str:
    return f"1000-{number:032x}-{number * 7:032x}-0123456789abcdef"


def listed(folder: Path) -> dict[str, float]:
    """List the ledger by the command line, best of three; return seconds and the peak of memory."""
    best = {"seconds": float("inf"), "cpu_s": float("inf"), "peak_mb": 0.0}
    for _ in range(3):
        started = time.monotonic()
        command = [sys.executable, "-m", "twice", "status", "scale"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            said = process.stdout.read() if process.stdout else ""
            _, state, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(state)
        seconds = time.monotonic() - started
        if process.returncode or " done" not in said:
            raise SystemExit(f"twice status failed: {said}")
        best = {
            "seconds": min(best["seconds"], seconds),
            "cpu_s": min(best["cpu_s"], usage.ru_utime + usage.ru_stime),
            "peak_mb": usage.ru_maxrss / 1024,
        }
    return best


def planned(folder: Path, partitions: int) -> float:
    """Plan a backfill of everything that the ledger holds, best of three; return seconds."""
    from twice import config as configuration
    from twice.backfill.planning import Planner
    from twice.backfill.request import Request
    from twice.engine.separating import Separability
    from twice.ledger import open_ledger
    from twice.loading import find_pipeline
    from twice.model.windows import Window

    config = configuration.load(folder / "twice.toml")
    ledger, scale = open_ledger(config.ledger), find_pipeline(config, "scale")
    units = partitions // 2
    request = Request("scale", Window(START, START + units * timedelta(hours=1)), only=("all",), refetch=True)
    best = float("inf")
    for _ in range(3):
        started = time.monotonic()
        plan = Planner(ledger, scale, request, judge=lambda _: Separability(ok=True, reason="told so")).plan()
        best = min(best, time.monotonic() - started)
        made = [sum(len(stage.target.partitions) for stage in step.stages) for step in plan.steps]
        if made != [units, units]:
            raise SystemExit(f"the plan makes {made} partitions")
    return best


def measure(partitions: int, *, plan: bool = False) -> dict[str, float]:
    """Fill a ledger of that size, list it, and plan a backfill of it if asked to."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        subprocess.run([sys.executable, __file__, "--fill", folder, "--partitions", str(partitions)], check=True)
        filled = time.monotonic() - started
        found = listed(Path(folder))
        found |= {"ledger_mb": (Path(folder) / "ledger.db").stat().st_size / 1024 / 1024, "fill_s": filled}
        if plan:
            found["plan_s"] = planned(Path(folder), partitions)
    shown = {name: round(value, 2) for name, value in found.items()}
    print(f"{partitions:>9,} partitions: {shown}", file=sys.stderr)
    return found


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000, help="how many are listed")
    parser.add_argument("--plan", type=int, default=10_000, help="how many are planned")
    parser.add_argument("--fill", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(Path(options.fill), options.partitions)
        return
    small, large = measure(options.plan, plan=True), measure(options.partitions)
    more = options.partitions - options.plan
    print(
        json.dumps(
            {
                "bench": "scale",
                "partitions": options.partitions,
                "plan_10k_s": round(small["plan_s"], 2),
                "status_10k_s": round(small["seconds"], 2),
                "status_100k_s": round(large["seconds"], 2),
                # What a busy machine leaves as it is.
                "status_100k_cpu_s": round(large["cpu_s"], 2),
                "status_peak_mb": round(large["peak_mb"], 1),
                # Per partition, from the small to the large: what linear growth costs.
                "ledger_kb_each": round((large["ledger_mb"] - small["ledger_mb"]) * 1024 / more, 2) if more else None,
                "peak_kb_each": round((large["peak_mb"] - small["peak_mb"]) * 1024 / more, 2) if more else None,
            }
        )
    )


if __name__ == "__main__":
    main()
