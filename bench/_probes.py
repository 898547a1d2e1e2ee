"""What goes wrong, and for whom: the probes of bench/peers.py, each on tables of a few rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import _wide
import backfill
from _contenders import Contender, Project

from twice import config as configuration
from twice.engine.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("kill", "both", "empty", "merge")
_DAYS = 3
_ORDERS = 30_000
_PATIENCE = 300.0  # seconds after which a command hangs
Make = Callable[[Contender, str, Project], Project]


@dataclass(frozen=True)
class Probed:
    """A contender's tables of three days, and the session that looks at them."""

    spark: SparkSession
    contender: Contender
    project: Project

    def day(self, number: int) -> date:
        """Return a day of the project."""
        return self.project.start + timedelta(days=number)

    def command(self, number: int) -> list[str]:
        """Return the command that makes one day again."""
        return self.contender.again(self.project, self.day(number), self.day(number))

    def start(
        self, command: Sequence[str], title: str, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own; what it prints goes into a file of the project."""
        environment = {**os.environ, **self.contender.environment(self.project), **(more or {})}
        with (self.project.folder / f"{title}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self.project.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, command: Sequence[str], title: str) -> int:
        """Run a command to its end; return its exit code."""
        return ended(self.start(command, title))

    def content(self) -> dict[str, tuple[object, ...]]:
        """Return what the tables hold."""
        return _wide.content(self.spark, self.project.raw, self.project.space)

    def wanted(self) -> dict[str, tuple[object, ...]]:
        """Return what the tables ought to hold."""
        return _wide.content(self.spark, self.project.raw)

    def verdict(self, said: str = "") -> str:
        """Compare the tables with what they ought to hold."""
        found, wanted = self.content(), self.wanted()
        differs = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        note = f" ({said})" if said else ""
        if not differs:
            return f"right{note}"
        rows = [f"{name} has {_rows(found, name)} rows, not {_rows(wanted, name)}" for name in differs[:2]]
        return f"wrong: {'; '.join(rows)}{note}"


def kill(running: subprocess.Popen[bytes]) -> None:
    """Kill a command and everything that it started."""
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def ended(running: subprocess.Popen[bytes]) -> int:
    """Wait for a command and return its exit code; one that hangs is killed, as a scheduler would."""
    try:
        return running.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        kill(running)
        return running.returncode


def _rows(content: dict[str, tuple[object, ...]], name: str) -> object:
    return content.get(name, (0,))[0]


def run(lake: Path, chosen: dict[str, Contender], make: Make, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
    """Run the probes for every contender; return the results by probe and contender."""
    results: dict[str, dict[str, str]] = {}
    if not wanted:
        return results
    spark = session.start(configuration.load(lake / "twice.toml"))
    for name, contender in chosen.items():
        found: dict[str, str] = {}
        if {"kill", "both", "empty"} & set(wanted):
            found |= _on_days(spark, lake, contender, make, wanted)
        if "merge" in wanted:
            found |= _merges(spark, lake, contender, make)
        for probe, result in found.items():
            print(f"probe {probe:17} {name:8} {result}", file=sys.stderr)
            results.setdefault(probe, {})[name] = result
    spark.stop()
    return results


def _on_days(
    spark: SparkSession, lake: Path, contender: Contender, make: Make, wanted: Sequence[str]
) -> dict[str, str]:
    space = f"probe_{contender.name}"
    raw = f"lake.raw.{space}"
    backfill.land(spark, raw, _DAYS, _ORDERS)
    spark.sql(f"create namespace if not exists lake.{space}")
    project = make(contender, "wide", Project(lake, space, raw, backfill.START, _DAYS))
    probed = Probed(spark, contender, project)
    if code := probed.finish(contender.whole(project), "first"):
        return dict.fromkeys(wanted, f"not observed: the first run ended with exit code {code}")
    found = {}
    if "kill" in wanted:
        found |= _killed(probed, lake / "warehouse")
    if "both" in wanted:
        found["two at once"] = _both(probed)
    if "empty" in wanted:
        spark.sql(f"delete from {raw} where order_date = date '{probed.day(2)}'")
        code = probed.finish(contender.emptied(project, probed.day(2)), "empty")
        found["empty day"] = probed.verdict(f"exit code {code}")
    return found


def _killed(probed: Probed, warehouse: Path) -> dict[str, str]:
    """Kill a run as soon as it writes a data file of the facts; look; run again; look."""
    old = probed.content()
    _wide.correct(probed.spark, probed.project.raw, probed.day(1), probed.day(1), version=10)
    new = probed.wanted()
    known = _files(warehouse, probed.project.space)
    running = probed.start(probed.command(1), "killed")
    until = time.monotonic() + _PATIENCE
    while running.poll() is None and time.monotonic() < until and _files(warehouse, probed.project.space) <= known:
        time.sleep(0.005)
    if running.poll() is not None:
        missed = "not observed: the run ended before it was killed"
        return {"kill, readers": missed, "kill, then rerun": missed}
    kill(running)
    seen = probed.content()
    half = sorted(name for name in {*old, *new} if seen.get(name) not in (old.get(name), new.get(name)))
    rows = [f"{name} has {_rows(seen, name)} rows, {_rows(old, name)} before" for name in half[:2]]
    readers = f"wrong: {'; '.join(rows)}" if half else "right"
    code = probed.finish(probed.command(1), "rerun")
    return {"kill, readers": readers, "kill, then rerun": probed.verdict(f"exit code {code}")}


def _files(warehouse: Path, space: str) -> set[Path]:
    places = (place for place in warehouse.glob(f"*{space}/*facts*") if place.is_dir())
    return {file for place in places for file in place.rglob("*.parquet")}


def _both(probed: Probed) -> str:
    """Run the same command twice at once."""
    _wide.correct(probed.spark, probed.project.raw, probed.day(1), probed.day(1), version=11)
    apart = probed.contender.side_by_side
    running = [probed.start(probed.command(1), f"both{number}", apart) for number in range(2)]
    codes = sorted(ended(each) for each in running)
    return probed.verdict(f"exit codes {codes[0]} and {codes[1]}")


def _merges(spark: SparkSession, lake: Path, contender: Contender, make: Make) -> dict[str, str]:
    """Merge a new key that arrives twice, then a known key that does."""
    probes = {"merge, new key": (1, 2), "merge, known key": (2, 1)}
    if contender.cannot_merge:
        return dict.fromkeys(probes, contender.cannot_merge)
    space = f"merge_{contender.name}"
    raw = f"lake.raw.{space}"
    first = backfill.START
    spark.sql(
        f"create table {raw} (id bigint, version bigint, name string, arrived date) "
        "using iceberg partitioned by (arrived)"
    )
    spark.sql(f"create namespace if not exists lake.{space}")
    _arrive(spark, raw, first, [(1, 1, "first")])
    project = make(contender, "merge", Project(lake, space, raw, first, _DAYS))
    probed = Probed(spark, contender, project)
    if code := probed.finish(contender.merge(project, first), "first"):
        return dict.fromkeys(probes, f"not observed: the first run ended with exit code {code}")
    found = {}
    for probe, (number, key) in probes.items():
        before = _named(spark, space, key)
        _arrive(spark, raw, first + timedelta(days=number), [(key, 3, "newest"), (key, 2, "older")])
        code = probed.finish(contender.merge(project, first + timedelta(days=number)), f"merge{number}")
        names = _named(spark, space, key)
        good = names == ["newest"] if code == 0 else names == before
        found[probe] = (
            f"{'right' if good else 'wrong'}: exit code {code}, key {key} is {' and '.join(names) or 'absent'}"
        )
    return found


def _arrive(spark: SparkSession, raw: str, day: date, rows: list[tuple[int, int, str]]) -> None:
    values = ", ".join(f"({key}, {version}, '{name}', date '{day}')" for key, version, name in rows)
    spark.sql(f"insert into {raw} values {values}")


def _named(spark: SparkSession, space: str, key: int) -> list[str]:
    rows = spark.table(f"lake.{space}.merged").where(f"id = {key}").select("name").collect()
    return sorted(row[0] for row in rows)
