"""A day of 10 million orders in a JVM of 2 GiB, and what the Python process needs for it.

Each size runs in a process of its own: raw landing, fact, dimension, marts. The Python peak must
not depend on the number of rows.

    python bench/memory.py [--small 100000] [--large 10000000]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[stores.serving]
type = "sql"
url = "sqlite:///serving.db"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "2g"
"spark.sql.shuffle.partitions" = "16"
"""


def day(folder: str) -> None:
    """Run one day of the shop in this process, and print its rows and this process's peak."""
    sys.path.insert(0, str(ROOT))
    from examples.shop.pipeline import shop
    from twice import config as configuration
    from twice import run

    file = Path(folder) / "twice.toml"
    file.write_text(TOML)
    started = time.monotonic()
    result = run(shop, "2026-04-25", config=configuration.load(file))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = {step.step: step.rows for step in result.steps}
    print(json.dumps({"rows": rows, "peak_mb": peak, "seconds": time.monotonic() - started}))


def measure(orders: int) -> dict[str, object]:
    """Run a day of that size in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(
            [sys.executable, __file__, "--day", folder],
            env={**os.environ, "TWICE_SHOP_ORDERS": str(orders)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, object] = json.loads(said.stdout.splitlines()[-1])
    print(f"{orders:>12,} orders: {found}", file=sys.stderr)
    return found


def main() -> None:
    """Measure both sizes, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=10_000_000)
    parser.add_argument("--day", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.day:
        day(options.day)
        return
    small, large = measure(options.small), measure(options.large)
    print(
        json.dumps(
            {
                "bench": "memory",
                "jvm": "2g",
                "orders": options.large,
                "python_peak_mb": round(float(str(large["peak_mb"])), 1),
                "python_peak_ratio": round(float(str(large["peak_mb"])) / float(str(small["peak_mb"])), 3),
                "seconds": round(float(str(large["seconds"])), 1),
            }
        )
    )


if __name__ == "__main__":
    main()
