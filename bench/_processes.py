"""Commands that are measured as a user waits for them: each a process of its own, with Spark's start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twice import config as configuration
from twice.engine.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
TWICE = (sys.executable, "-m", "twice", "-q")


def seconds_of(
    command: Sequence[str], folder: Path, *, expected: str = "", environment: Mapping[str, str] | None = None
) -> float:
    """Run a command in a folder and return its seconds; another exit code than 0, or other output, is an error."""
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent), str(folder), os.environ.get("PYTHONPATH", "")])
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    if done.returncode or expected not in done.stdout:
        said = f"exit code {done.returncode}" if done.returncode else f"its output lacks {expected!r}"
        raise RuntimeError(f"{' '.join(command)}: {said}\n{done.stdout}\n{done.stderr}")
    return seconds


def session_by_hand(folder: Path) -> SparkSession:
    """Start Spark as a plain PySpark job does: with the same settings of Spark, but Java's default options."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("by hand")
    for name, value in session.settings(configuration.load(folder / "twice.toml")).items():
        if name != "spark.driver.extraJavaOptions":
            builder = builder.config(name, value)
    return builder.getOrCreate()


def interleaved(sides: Mapping[str, Callable[[int], float]], rounds: int, title: str = "") -> dict[str, float]:
    """Measure every side once in each round; return the medians. What was measured is printed as it comes."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        for side, measured in sides.items():
            times[side].append(measured(number))
            print(f"{title}round {number} {side:10} {times[side][-1]:7.2f} s", file=sys.stderr)
    return {side: statistics.median(found) for side, found in times.items()}
